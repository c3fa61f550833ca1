"""Two real servers in two processes, and the SDK's own client that sends each round where it likes."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, InputResponses

ROOT = Path(__file__).parents[2]
ORDER = {"order": "ORD-7001"}


@dataclass
class Replica:
    """A server process.

    Attributes:
        process: The process; its stdout holds the port.
        log: The file that its stderr goes to.
        port: Its port, once it is ready.
    """

    process: subprocess.Popen[str]
    log: Path
    port: int = 0

    def ready(self) -> "Replica":
        """Wait until the process has said which port it listens on."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server did not start: {self.log.read_text()}"
        self.port = int(line)
        return self

    def logged(self) -> list[str]:
        """Give the lines that the process has logged."""
        return self.log.read_text().splitlines()


@contextmanager
def started(rings: Mapping[str, Path], log: Path) -> Generator[Replica]:
    """Run a replica until the block ends."""
    command = [sys.executable, "-W", "error", "-m", "tests.mcp.servers.replica"]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*command, *(f"{alg}={path}" for alg, path in rings.items())],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=ROOT,
        )
    try:
        yield Replica(process, log)
    finally:
        process.terminate()
        process.communicate()


@asynccontextmanager
async def connected(replica: Replica, kind: str, alg: str, user: str) -> AsyncGenerator[Client]:
    """Connect a user's client to one kind of server of a replica."""
    url = f"http://127.0.0.1:{replica.port}/{kind}/{alg}/mcp"
    bearer = {"Authorization": f"Bearer {user}-token"}
    async with (
        httpx2.AsyncClient(headers=bearer) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@dataclass(frozen=True)
class Caller:
    """A user who calls the refund tool of one kind of server, round by round.

    Attributes:
        kind: Which server, as `tests/mcp/servers/kinds.py` names them.
        alg: Under which ring.
        user: Who calls.
    """

    kind: str
    alg: str = "A256GCM"
    user: str = "alice"

    async def call(
        self,
        replica: Replica,
        state: str | None = None,
        answer: tuple[str, str] | None = None,
        arguments: Mapping[str, object] = ORDER,
    ) -> CallToolResult | InputRequiredResult | MCPError:
        """Do one round at one replica, with the SDK's own client; an error answer is an answer."""
        answers: InputResponses | None = None
        if answer is not None:
            key, value = answer
            answers = {key: ElicitResult(action="accept", content={key: value})}
        async with connected(replica, self.kind, self.alg, self.user) as client:
            try:
                return await client.session.call_tool(
                    "refund",
                    dict(arguments),
                    request_state=state,
                    input_responses=answers,
                    allow_input_required=True,
                )
            # Caught in here: the client's task group would wrap it in a group of its own.
            except MCPError as error:
                return error

    async def paused(
        self, replica: Replica, state: str | None = None, answer: tuple[str, str] | None = None
    ) -> str:
        """Do one round that ends in a question, and give the state that came with it."""
        result = await self.call(replica, state, answer)
        assert isinstance(result, InputRequiredResult)
        assert result.request_state is not None
        return result.request_state

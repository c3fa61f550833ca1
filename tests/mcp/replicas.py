"""Two real servers in two processes, and a client that sends each round where it likes."""

import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mcp.client import ORDER, Told, asked, call

ROOT = Path(__file__).parents[2]


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
        *,
        arguments: Mapping[str, object] = ORDER,
        **answer: str,
    ) -> Told:
        """Do one round at one replica; an error answer is an answer."""
        url = self._url(replica)
        return await call(url, state, user=self.user, arguments=arguments, **answer)

    async def asked(self, replica: Replica, state: str | None = None, **answer: str) -> str:
        """Do one round that ends in a question, and give the state that came with it."""
        return await asked(self._url(replica), state, user=self.user, **answer)

    def _url(self, replica: Replica) -> str:
        return f"http://127.0.0.1:{replica.port}/{self.kind}/{self.alg}/mcp"

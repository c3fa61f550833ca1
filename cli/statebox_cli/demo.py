"""`statebox demo`: one MCP flow that pauses in one server process and finishes in another.

Everything is real: two servers over streamable HTTP, the MCP SDK's own client, one keyring file.
Nothing leaves the loopback interface. It ends with a non-zero exit code if any step goes otherwise.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from statebox import Keyring, Request, Statebox, StateboxError
from statebox.files import locked
from statebox_cli import output
from statebox_cli.options import json_option
from statebox_cli.output import Command

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult, ElicitRequestParams, InputRequiredResult

_ORDER: Final = {"order": "ORD-7001"}
_OTHER_ORDER: Final = {"order": "ORD-9999"}
_START_SECONDS: Final = 60
_WIRE: Final = (-32602, "Invalid or expired requestState", {"reason": "invalid_request_state"})


class DemoError(StateboxError):
    """A step of the demo went otherwise than it should."""

    code = "demo"
    default_hint = "Run `statebox demo` again; if it fails again, please report it."


@dataclass
class Server:
    """One server process.

    Attributes:
        name: A letter.
        process: The process; its stdout holds the port.
        log: The file that its log goes to.
        port: Its port.
    """

    name: str
    process: subprocess.Popen[str]
    log: Path
    port: int = 0

    @property
    def url(self) -> str:
        """Where the client finds it."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def reason(self) -> str:
        """Give what its log says of the last refusal."""
        lines = [line for line in self.log.read_text().splitlines() if "refused" in line]
        if not lines:
            raise DemoError(f"server {self.name} has logged no refusal")
        return lines[-1].partition("tools/call: ")[2].partition(" (kid")[0]


@click.command(
    cls=Command, blank={"steps": {}}, short_help="Watch a flow move between two servers."
)
@json_option
def demo(*, as_json: bool) -> None:
    """Watch an MCP flow pause in one server process and finish in another.

    Starts two MCP servers on loopback with one keyring file. A refund asks the user to confirm:
    the first round goes to server A, the second to server B. Then four tokens that must not work
    are presented: tampered with, expired, another user's, another order's.
    """
    importlib.import_module("mcp")  # where it is missing, the error says so before all else

    steps: dict[str, Any] = {}
    say: _Say = _silent if as_json else _aloud
    with tempfile.TemporaryDirectory(prefix="statebox-demo-") as folder:
        keyring = Path(folder) / "keyring.json"
        with locked(keyring) as file:
            file.replace(Keyring.generate().to_json().encode())
        with _servers(keyring) as (a, b):
            asyncio.run(_story(keyring, a, b, steps, say))
    output.emit({"steps": steps}, "\nEvery step went as it should.", as_json=as_json)


_Say = Callable[[str], None]


def _aloud(text: str) -> None:
    click.echo(text)


def _silent(text: str) -> None:
    """Say nothing: with --json the object at the end says it all."""


async def _story(keyring: Path, a: Server, b: Server, steps: dict[str, Any], say: _Say) -> None:
    ring = Keyring.load(keyring)
    say("1  One keyring file, two server processes")
    say(f"   keyring.json  key {next(iter(ring)).kid}, readable by its owner only")
    for server in (a, b):
        say(f"   server {server.name}      process {server.process.pid}, {server.url}")

    say("\n2  Alice asks server A for a refund; A needs her to confirm")
    asked = await _call(a, "alice", _ORDER)
    token = _paused(asked)
    say(f"   Refund {_ORDER['order']}? The half-finished work now lies with the client:")
    say(f"   {token[:24]}...{token[-8:]}  ({len(token)} characters)")
    steps["paused"] = {"process": a.process.pid, "token_characters": len(token)}

    say("\n3  What is it?   $ statebox inspect --keyring keyring.json ...")
    say(textwrap.indent(await asyncio.to_thread(_inspected, keyring, token), "   ").rstrip())

    say("\n4  Alice says yes, and her client asks server B, which has never heard of it")
    done = _text(await _call(b, "alice", _ORDER, token, asked))
    if done != f"refunded {_ORDER['order']} (process {b.process.pid})":
        raise DemoError(f"server B did not finish the refund: {done}")
    say(f"   {done}")
    steps["finished"] = {"process": b.process.pid, "answer": done}

    say("\n5  What must not work, and what the server's log says of it")
    bad = {
        "tampered with": ("authentication", "alice", _ORDER, _tampered(token)),
        "expired": ("expired", "alice", _ORDER, _expired(ring)),
        "another user's": ("principal", "bob", _ORDER, token),
        "another order's": ("request", "alice", _OTHER_ORDER, token),
    }
    steps["refused"] = {}
    for name, (code, user, order, presented) in bad.items():
        reason = await _refused(b, user, order, presented, asked)
        if not reason.startswith(f"{code}:"):
            raise DemoError(f"the token {name} was refused, but as: {reason}")
        say(f"   {name:<16} refused  {reason}")
        steps["refused"][name] = code
    say(f"   The client was told each time: {_WIRE[0]}, {_WIRE[1]}")


async def _call(
    server: Server,
    user: str,
    arguments: dict[str, str],
    token: str | None = None,
    asked: object = None,
) -> CallToolResult | InputRequiredResult | MCPError:
    """Do one round as a user's client does it; an error answer is an answer."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError
    from mcp_types import ElicitResult

    # That the client has one is what the server looks for before it asks.
    yes = ElicitResult(action="accept", content={"yes": True})

    async def says_yes(
        context: ClientRequestContext,  # noqa: ARG001 - the SDK's signature
        params: ElicitRequestParams,  # noqa: ARG001
    ) -> ElicitResult:
        return yes

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {user}"}) as http,
        Client(
            streamable_http_client(server.url, http_client=http), elicitation_callback=says_yes
        ) as client,
    ):
        try:
            return await client.session.call_tool(
                "refund",
                dict(arguments),
                request_state=token,
                input_responses=dict.fromkeys(getattr(asked, "input_requests", None) or {}, yes),
                allow_input_required=True,
            )
        # Caught in here: the client's task group would wrap it in a group of its own.
        except MCPError as error:
            return error


async def _refused(
    server: Server, user: str, arguments: dict[str, str], token: str, asked: object
) -> str:
    answer = await _call(server, user, arguments, token, asked)
    error = getattr(answer, "error", None)
    if error is None:
        raise DemoError(f"server {server.name} took a token that it must refuse")
    if (error.code, error.message, error.data) != _WIRE:
        raise DemoError(f"server {server.name} told the client something else than it should")
    return server.reason()


@contextmanager
def _servers(keyring: Path) -> Generator[tuple[Server, Server]]:
    with ExitStack() as stack:
        a, b = (stack.enter_context(_started(name, keyring)) for name in "AB")
        for server in (a, b):
            line = server.process.stdout.readline() if server.process.stdout else ""
            if not line.strip().isdecimal():
                raise DemoError(f"server {server.name} did not start")
            server.port = int(line)
        yield a, b


@contextmanager
def _started(name: str, keyring: Path) -> Generator[Server]:
    log = keyring.with_name(f"server-{name}.log")
    with log.open("w") as stderr:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "statebox_cli.demo_server", str(keyring)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        yield Server(name, process, log)
    finally:
        process.terminate()
        process.communicate(timeout=_START_SECONDS)


def _inspected(keyring: Path, token: str) -> str:
    from statebox_cli.demo_server import AUDIENCE, CLIENT_ID, ISSUER

    request = keyring.with_name("request.json")
    call = {"method": "tools/call", "params": {"name": "refund", "arguments": _ORDER}}
    request.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, **call}))
    options = ["--keyring", str(keyring), "--audience", AUDIENCE, "--request", str(request)]
    for part in (ISSUER, "alice", CLIENT_ID):
        options += ["--principal", part]
    run = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "statebox", "inspect", *options, "-"],
        input=token,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise DemoError(f"statebox inspect ended with {run.returncode}")
    return run.stdout


def _paused(result: object) -> str:
    token = getattr(result, "request_state", None)
    if not isinstance(token, str) or not token.startswith("sb1."):
        raise DemoError("server A did not pause with a sealed requestState")
    return token


def _text(result: object) -> str:
    content = getattr(result, "content", None)
    return str(getattr(content[0], "text", "")) if content else "no answer"


def _tampered(token: str) -> str:
    middle = len(token) // 2
    other = "A" if token[middle] != "A" else "B"
    return token[:middle] + other + token[middle + 1 :]


def _expired(ring: Keyring) -> str:
    """Seal what the server would have sealed half an hour ago."""
    from statebox_cli.demo_server import AUDIENCE, CLIENT_ID, ISSUER

    earlier = time.time() - 1800
    past = Keyring([key.replace(nbf=int(earlier) - 60) for key in ring], max_ttl=ring.max_ttl)
    return Statebox(past, audience=AUDIENCE, clock=lambda: earlier).seal(
        "{}",
        principal=(ISSUER, "alice", CLIENT_ID),
        request=Request("tools/call", "refund", _ORDER),
    )

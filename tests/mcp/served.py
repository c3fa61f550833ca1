"""Servers with single use, on a port of this process."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from mcp.server.request_state import RequestStateBoundary
from mcp_types import InputRequiredResult, InputResponses
from starlette.applications import Starlette

from statebox import Keyring, Statebox
from statebox.mcp import SingleUse, protect, request_state_security
from statebox.mcp.fastmcp import SealedStateOnly
from statebox.mcp.fastmcp import SingleUse as FastMCPSingleUse
from statebox.replay import AnswerStore, ReplayGuard
from tests.mcp.servers.kinds import fastmcp_server, low_level_server, mcp_server
from tests.mcp.servers.refund import refund


@dataclass
class Refunds:
    """A refund tool that numbers its runs; what it does in the last round can be held up.

    Attributes:
        runs: The orders of the rounds in which money went out.
        begun: Set when the last round has begun.
        go_on: What the last round waits for.
    """

    runs: list[str] = field(default_factory=list[str])
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(
        self, order: str, state: str | None, answers: InputResponses | None
    ) -> str | InputRequiredResult:
        """Do one round."""
        done = await refund(order, state, answers)
        if isinstance(done, InputRequiredResult):
            return done
        self.runs.append(order)
        self.begun.set()
        await self.go_on.wait()
        return f"{done}, run {len(self.runs)}"


Make = Callable[[Keyring, Refunds, ReplayGuard, AnswerStore | None], Starlette]


def boundary(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """An MCPServer with statebox's boundary."""
    server = mcp_server(refunds.run)
    protect(server, Statebox(ring, audience="billing"), guard=guard, remember=store)
    return server.streamable_http_app()


def low_level_boundary(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """A low-level Server with statebox's boundary."""
    server = low_level_server(refunds.run)
    protect(server, Statebox(ring, audience="billing"), guard=guard, remember=store)
    return server.streamable_http_app()


def codec(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """An MCPServer with statebox as the SDK's codec."""
    server = mcp_server(
        refunds.run,
        request_state_security=request_state_security(ring, audience="billing"),
        middleware=[SingleUse(guard, remember=store)],
    )
    return server.streamable_http_app()


def low_level_codec(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """A low-level Server with the SDK's boundary and statebox as its codec."""
    server = low_level_server(refunds.run)
    security = request_state_security(ring, audience="billing")
    server.middleware.append(RequestStateBoundary(security, default_audience=None))
    server.middleware.append(SingleUse(guard, remember=store))
    return server.streamable_http_app()


def fastmcp(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """A FastMCP with statebox as the SDK's codec; it keeps no answers."""
    assert store is None
    server = fastmcp_server(
        request_state_security(ring, audience="billing"),
        refunds.run,
        middleware=[SealedStateOnly(), FastMCPSingleUse(guard)],
    )
    return server.http_app()


@asynccontextmanager
async def serving(app: Starlette) -> AsyncGenerator[str]:
    """Serve an application over HTTP for the length of the block; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Connections queue from here on.
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await running

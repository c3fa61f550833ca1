"""A whole MCP round trip over HTTP: a call that pauses with a state, and the call that finishes it.

The server is the SDK's low-level one behind its streamable HTTP app. Requests reach it through
httpx2 and ASGI within this process, so that the network is not what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import httpx2
from mcp.server import Server, ServerRequestContext
from mcp.server.context import ServerMiddleware
from mcp.server.request_state import RequestStateBoundary
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.applications import Starlette

from benchmarks.boundary import sdk_security, user
from benchmarks.cases import METHOD, PARAMS, PRINCIPALS, box_of, text
from benchmarks.measuring import Call
from statebox.keys import A256GCM
from statebox.mcp import StateboxBoundary

VERSION: Final = "2026-07-28"
STATE: Final = text(256)
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"yes": {"type": "boolean"}},
    "required": ["yes"],
}
_QUESTION: Final = InputRequiredResult(
    input_requests={
        "yes": ElicitRequest(
            params=ElicitRequestFormParams(message="Refund it?", requested_schema=_SCHEMA)
        )
    },
    request_state=STATE,
)
_ANSWER: Final[dict[str, Any]] = {"yes": {"action": "accept", "content": {"yes": True}}}
_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": METHOD,
    "Mcp-Name": str(PARAMS["name"]),
}
_META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    "user": PRINCIPALS[0],
}


BOUNDARIES: Final[dict[str, Callable[[], ServerMiddleware[Any] | None]]] = {
    "none": lambda: None,
    "sdk": lambda: RequestStateBoundary(sdk_security(), default_audience=None),
    "statebox": lambda: StateboxBoundary(box_of(A256GCM), principal=user),
}


@contextmanager
def round_trips() -> Generator[dict[str, Call]]:
    """Give a round trip without any boundary, with the SDK's, and with statebox's, by name."""
    boundaries = {name: make() for name, make in BOUNDARIES.items()}
    with asyncio.Runner() as runner:
        servers = {name: _Running(_app(boundary)) for name, boundary in boundaries.items()}
        for server in servers.values():
            runner.run(server.start())
        try:
            yield {name: partial(_run, runner, server) for name, server in servers.items()}
        finally:
            for server in servers.values():
                runner.run(server.stop())


def _run(runner: asyncio.Runner, server: _Running) -> str:
    return runner.run(server.round_trip())


def _app(boundary: ServerMiddleware[Any] | None) -> Starlette:
    async def call(
        ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        if params.request_state is None:
            return _QUESTION
        return CallToolResult(content=[TextContent(text=params.request_state)])

    async def tools(
        ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=PARAMS["name"], input_schema={"type": "object"})])

    server = Server[Any]("refunds", on_call_tool=call, on_list_tools=tools)
    if boundary is not None:
        server.middleware.append(boundary)
    return server.streamable_http_app(json_response=True)


class _Running:
    """An app between its startup and its shutdown, and a client of it."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._started = asyncio.Event()
        self._over = asyncio.Event()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._live())
        await self._started.wait()

    async def stop(self) -> None:
        self._over.set()
        await self._task

    async def round_trip(self) -> str:
        paused = await self._call({})
        token = paused["requestState"]
        done = await self._call({"requestState": token, "inputResponses": _ANSWER})
        return str(done["content"][0]["text"])

    async def _live(self) -> None:
        transport = httpx2.ASGITransport(app=self._app)
        async with (
            self._app.router.lifespan_context(self._app),
            httpx2.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:8000", headers=_HEADERS
            ) as self._client,
        ):
            self._started.set()
            await self._over.wait()

    async def _call(self, members: dict[str, Any]) -> dict[str, Any]:
        params = {**PARAMS, **members, "_meta": _META}
        body = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": params}
        response = await self._client.post("/mcp", json=body)
        response.raise_for_status()
        result: dict[str, Any] = response.json()["result"]
        return result

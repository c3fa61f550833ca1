"""Servers on a port of this process, and the SDK's own client for them."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateBoundary
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.applications import Starlette

from statebox import Keyring, Statebox
from statebox.mcp import SingleUse, protect, request_state_security
from statebox.mcp.fastmcp import SealedStateOnly
from statebox.mcp.fastmcp import SingleUse as FastMCPSingleUse
from statebox.replay import AnswerStore, ReplayGuard
from tests.mcp.servers.refund import refund

ORDER = {"order": "ORD-7001"}
Told = CallToolResult | InputRequiredResult | MCPError


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
        done = refund(order, state, answers)
        if isinstance(done, InputRequiredResult):
            return done
        self.runs.append(order)
        self.begun.set()
        await self.go_on.wait()
        return f"{done}, run {len(self.runs)}"


Make = Callable[[Keyring, Refunds, ReplayGuard, AnswerStore | None], Starlette]


def _mcp_server(refunds: Refunds, **options: Any) -> MCPServer[Any]:
    server = MCPServer[Any]("refunds", **options)

    async def refund_tool(order: str, ctx: Context) -> str | InputRequiredResult:
        return await refunds.run(order, ctx.request_state, ctx.input_responses)

    server.add_tool(refund_tool, name="refund")
    return server


def _low_level_server(refunds: Refunds) -> Server[Any]:
    async def call(
        ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        order = str((params.arguments or {})["order"])
        done = await refunds.run(order, params.request_state, params.input_responses)
        if isinstance(done, InputRequiredResult):
            return done
        return CallToolResult(content=[TextContent(text=done)])

    async def tools(
        ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        schema = {"type": "object", "properties": {"order": {"type": "string"}}}
        return ListToolsResult(tools=[Tool(name="refund", input_schema=schema)])

    return Server[Any]("refunds", on_call_tool=call, on_list_tools=tools)


def boundary(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """An MCPServer with statebox's boundary."""
    server = _mcp_server(refunds)
    protect(server, Statebox(ring, audience="billing"), guard=guard, remember=store)
    return server.streamable_http_app()


def low_level_boundary(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """A low-level Server with statebox's boundary."""
    server = _low_level_server(refunds)
    protect(server, Statebox(ring, audience="billing"), guard=guard, remember=store)
    return server.streamable_http_app()


def codec(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """An MCPServer with statebox as the SDK's codec."""
    server = _mcp_server(
        refunds,
        request_state_security=request_state_security(ring, audience="billing"),
        middleware=[SingleUse(guard, remember=store)],
    )
    return server.streamable_http_app()


def low_level_codec(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """A low-level Server with the SDK's boundary and statebox as its codec."""
    server = _low_level_server(refunds)
    security = request_state_security(ring, audience="billing")
    server.middleware.append(RequestStateBoundary(security, default_audience=None))
    server.middleware.append(SingleUse(guard, remember=store))
    return server.streamable_http_app()


def fastmcp(
    ring: Keyring, refunds: Refunds, guard: ReplayGuard, store: AnswerStore | None
) -> Starlette:
    """A FastMCP with statebox as the SDK's codec; it keeps no answers."""
    assert store is None
    server = FastMCP(
        "refunds",
        request_state_security=request_state_security(ring, audience="billing"),
        middleware=[SealedStateOnly(), FastMCPSingleUse(guard)],
    )

    async def refund_tool(order: str, ctx: FastMCPContext) -> str | InputRequiredResult:
        return await refunds.run(order, ctx.request_state, ctx.input_responses)

    server.tool(refund_tool, name="refund")
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


async def call(url: str, state: str | None = None, **answer: str) -> Told:
    """Do one round with the SDK's own client; an error answer is an answer."""
    answers: InputResponses = {
        key: ElicitResult(action="accept", content={key: value}) for key, value in answer.items()
    }
    async with (
        httpx2.AsyncClient() as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        try:
            return await client.session.call_tool(
                "refund",
                ORDER,
                request_state=state,
                input_responses=answers or None,
                allow_input_required=True,
            )
        # Caught in here: the client's task group would wrap it in a group of its own.
        except MCPError as error:
            return error


async def asked(url: str, state: str | None = None, **answer: str) -> str:
    """Do one round that ends in a question, and give the state that came with it."""
    told = await call(url, state, **answer)
    assert isinstance(told, InputRequiredResult)
    assert told.request_state is not None
    return told.request_state


def text_of(told: Told) -> str:
    """Give the text of a result that is no error."""
    assert isinstance(told, CallToolResult)
    assert not told.is_error
    (content,) = told.content
    assert isinstance(content, TextContent)
    return content.text


def refused(told: Told) -> bool:
    """Tell whether an answer is the one frozen refusal."""
    return isinstance(told, MCPError) and (told.code, told.message, told.data) == (
        -32602,
        "Invalid or expired requestState",
        {"reason": "invalid_request_state"},
    )

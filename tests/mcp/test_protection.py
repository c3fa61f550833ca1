"""`protect`: into the place of the SDK's boundary, never on top of it, or a refusal that says why."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from fastmcp import FastMCP
from mcp import Client
from mcp.client.session import ClientSession
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from statebox import Keyring, Request, Statebox
from statebox.mcp import StateboxBoundary, protect
from tests.mcp.servers.kinds import low_level_server, mcp_server

ORDER = {"order": "ORD-7001"}
CALL = Request("tools/call", "refund", ORDER)

Make = Callable[[], MCPServer[Any] | Server[Any]]
every_kind = pytest.mark.parametrize("make", [mcp_server, low_level_server])


@pytest.fixture
def box() -> Statebox:
    return Statebox(Keyring.generate(), audience="billing")


async def passes_on(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    return await call_next(ctx)


class Watcher:
    """A middleware of the user's that keeps the states it sees."""

    def __init__(self) -> None:
        self.came_in: list[object] = []
        self.went_out: list[object] = []

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "tools/call":
            self.came_in.append((ctx.params or {}).get("requestState"))
            if isinstance(result, dict):
                self.went_out.append(result.get("requestState"))
        return result


async def round_of(
    session: ClientSession, state: str | None = None, **answer: str
) -> CallToolResult | InputRequiredResult:
    return await session.call_tool(
        "refund",
        ORDER,
        request_state=state,
        input_responses={
            key: ElicitResult(action="accept", content={key: value})
            for key, value in answer.items()
        },
        allow_input_required=True,
    )


async def state_of(session: ClientSession, state: str | None = None, **answer: str) -> str:
    result = await round_of(session, state, **answer)
    assert isinstance(result, InputRequiredResult)
    assert result.request_state is not None
    return result.request_state


@every_kind
async def test_a_protected_server_seals_once_and_finishes_a_flow(make: Make, box: Statebox) -> None:
    server = make()
    protect(server, box)
    async with Client(server) as client:
        first = await state_of(client.session)
        second = await state_of(client.session, first, name="Alice")
        done = await round_of(client.session, second, yes="yes")
    turn = box.open(second, principal=None, request=CALL)
    assert turn.state == '{"step":"confirm","order":"ORD-7001","name":"Alice"}'
    assert turn.round == 2
    assert isinstance(done, CallToolResult)
    assert done.content == [TextContent(text="refunded ORD-7001 to Alice")]


@every_kind
async def test_a_protected_server_refuses_what_the_box_refuses(make: Make, box: Statebox) -> None:
    server = make()
    protect(server, box)
    unknown = Statebox(Keyring.generate(), audience="billing")
    token = unknown.seal("{}", principal=None, request=CALL)
    async with Client(server) as client:
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await round_of(client.session, token)


async def test_what_the_user_put_in_sees_the_state_in_the_clear(box: Statebox) -> None:
    before, after = Watcher(), Watcher()
    server = mcp_server(middleware=[before])
    protect(server, box)
    server.middleware.append(after)
    async with Client(server) as client:
        await state_of(client.session, await state_of(client.session), name="Alice")
    asked_name = '{"step":"name","order":"ORD-7001"}'
    asked_yes = '{"step":"confirm","order":"ORD-7001","name":"Alice"}'
    assert before.came_in == after.came_in == [None, asked_name]
    assert before.went_out == after.went_out == [asked_name, asked_yes]


def test_the_boundary_takes_the_place_of_the_sdks(box: Statebox) -> None:
    server = mcp_server(middleware=[passes_on])
    place = next(
        i for i, each in enumerate(server.middleware) if isinstance(each, RequestStateBoundary)
    )
    before = list(server.middleware)
    protect(server, box)
    assert isinstance(server.middleware[place], StateboxBoundary)
    before[place] = server.middleware[place]
    assert server.middleware == before


def test_on_a_low_level_server_it_stands_inside_of_the_sdks_and_outside_of_the_users(
    box: Statebox,
) -> None:
    server = low_level_server()
    sdks = list(server.middleware)
    server.middleware.append(passes_on)
    protect(server, box)
    assert server.middleware[: len(sdks)] == sdks
    assert isinstance(server.middleware[len(sdks)], StateboxBoundary)
    assert server.middleware[len(sdks) + 1 :] == [passes_on]


def test_on_a_low_level_server_without_any_middleware_it_is_the_only_one(box: Statebox) -> None:
    server = low_level_server()
    server.middleware.clear()
    protect(server, box)
    (only,) = server.middleware
    assert isinstance(only, StateboxBoundary)


def test_the_sdks_boundary_on_a_low_level_server_is_replaced(box: Statebox) -> None:
    server = low_level_server()
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience="refunds"))
    length = len(server.middleware)
    protect(server, box)
    assert len(server.middleware) == length
    assert isinstance(server.middleware[-1], StateboxBoundary)


async def test_protect_passes_the_principal_on(box: Statebox) -> None:
    server = mcp_server()
    protect(server, box, principal=lambda _: "alice")
    async with Client(server) as client:
        token = await state_of(client.session)
    assert box.open(token, principal="alice", request=CALL).round == 1


def unchanged(server: MCPServer[Any] | Server[Any], box: Statebox, why: str) -> None:
    """Assert that protect refuses a server, says why, and leaves it as it is."""
    before = list(server.middleware)
    with pytest.raises(ValueError, match=why):
        protect(server, box)
    assert server.middleware == before


@every_kind
def test_a_server_that_is_protected_already_is_refused(make: Make, box: Statebox) -> None:
    server = make()
    protect(server, box)
    unchanged(server, box, "StateboxBoundary already")


def test_a_boundary_on_top_of_the_sdks_is_refused(box: Statebox) -> None:
    unchanged(mcp_server(middleware=[StateboxBoundary(box)]), box, "StateboxBoundary already")


@every_kind
def test_two_boundaries_of_the_sdk_are_refused(make: Make, box: Statebox) -> None:
    server = make()
    for _ in range(2):
        security = RequestStateSecurity.ephemeral()
        server.middleware.append(RequestStateBoundary(security, default_audience="refunds"))
    unchanged(server, box, r"has \d of the SDK's RequestStateBoundary")


def test_an_mcp_server_without_its_boundary_is_refused(box: Statebox) -> None:
    server = mcp_server()
    server.middleware.clear()
    unchanged(server, box, "no RequestStateBoundary to replace")


def test_fastmcp_is_refused_with_the_way_that_works(box: Statebox) -> None:
    server = FastMCP("refunds")
    with pytest.raises(TypeError) as caught:
        protect(cast("Server[Any]", server), box)
    assert "FastMCP(request_state_security=request_state_security(" in str(caught.value)
    assert "middleware=[SealedStateOnly()]" in str(caught.value)


def test_fastmcp_has_no_public_place_for_a_boundary() -> None:
    server = FastMCP("refunds")
    public = {name: getattr(server, name) for name in dir(server) if not name.startswith("_")}
    assert not any(isinstance(each, Server | MCPServer) for each in public.values())
    chain: list[object] = list(server.middleware)
    assert not any(isinstance(each, RequestStateBoundary) for each in chain)


@pytest.mark.parametrize("server", [None, "refunds", object()], ids=["None", "text", "object"])
def test_what_is_no_server_is_refused(server: object, box: Statebox) -> None:
    with pytest.raises(TypeError, match="takes an MCPServer or a low-level Server"):
        protect(cast("Server[Any]", server), box)


def test_a_box_of_another_kind_leaves_the_server_as_it_is() -> None:
    server = mcp_server()
    before = list(server.middleware)
    with pytest.raises(TypeError, match="takes a Statebox"):
        protect(server, cast("Statebox", Keyring.generate()))
    assert server.middleware == before

"""SingleUse behind the SDK's boundary: what it spends, what it refuses, and what is told of it."""

import json
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import InputRequiredResult

from statebox import Keyring, Request
from statebox.claims import token_id
from statebox.envelope import from_text
from statebox.events import Event, GuardFailed, Opened, Recalled, Rejected, Sealed
from statebox.mcp import SingleUse, request_state_security
from statebox.mcp.fastmcp import SealedStateOnly
from statebox.mcp.fastmcp import SingleUse as FastMCPSingleUse
from statebox.replay import MemoryGuard
from tests.mcp.rounds import CALL, REFUND, STATE, Handler, code, context, paused
from tests.mcp.servers.kinds import fastmcp_server
from tests.mcp.servers.refund import refund
from tests.mcp.test_fastmcp import NAME, call, served

DONE: dict[str, Any] = {"content": [], "resultType": "complete"}


class Chain:
    """The SDK's boundary with statebox's codec, and SingleUse inside of it."""

    def __init__(self, single_use: SingleUse, security: RequestStateSecurity | None = None) -> None:
        if security is None:
            security = request_state_security(Keyring.generate(), audience="billing")
        self.security = security
        self.boundary = RequestStateBoundary(security, default_audience=None)
        self.single_use = single_use

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        async def inside(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
            return await self.single_use(ctx, call_next)

        return await self.boundary(ctx, inside)

    async def token(self, params: dict[str, Any] = REFUND) -> str:
        result = await self(context(params), Handler(paused(STATE)))
        assert isinstance(result, dict)
        return str(result["requestState"])

    async def refusal(
        self, ctx: ServerRequestContext[Any, Any], caplog: pytest.LogCaptureFixture
    ) -> object:
        """Present a state that SingleUse refuses; give the code that was logged."""
        caplog.clear()
        handler = Handler(DONE)
        with pytest.raises(MCPError) as caught:
            await self(ctx, handler)
        assert handler.seen == []
        assert caught.value.code == -32602
        assert caught.value.data == {"reason": "invalid_request_state"}
        (record,) = caplog.records
        assert record.name == "statebox.mcp"
        return code(record)


async def test_a_state_is_accepted_once(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain(SingleUse(MemoryGuard()))
    token = await chain.token()
    handler = Handler(DONE)
    assert await chain(context(state=token), handler) == DONE
    assert handler.state == STATE
    assert await chain.refusal(context(state=token), caplog) == "replayed"


async def test_a_state_that_the_sdk_refuses_is_not_spent() -> None:
    chain = Chain(SingleUse(MemoryGuard()))
    token = await chain.token()
    with pytest.raises(MCPError):
        await chain(context(REFUND | {"arguments": None}, state=token), Handler(DONE))
    assert await chain(context(state=token), Handler(DONE)) == DONE


async def test_what_carries_no_state_passes() -> None:
    chain = Chain(SingleUse(MemoryGuard()))
    for ctx in (context(), context(method="tools/list", state="x")):
        assert await chain(ctx, Handler(DONE)) == DONE


async def test_a_predicate_tells_which_tools_are_single_use() -> None:
    guard = MemoryGuard()
    asked: list[Request] = []

    def refunds(request: Request) -> bool:
        asked.append(request)
        return request.target == "refund"

    chain = Chain(SingleUse(guard, single_use=refunds, remember=guard))
    look: dict[str, Any] = {"name": "look"}
    token, other = await chain.token(), await chain.token(look)
    for n in range(2):
        assert await chain(context(look, state=other), Handler({"n": n})) == {"n": n}
    assert await chain(context(state=token), Handler(DONE)) == DONE
    assert await chain(context(state=token), Handler({"n": 3})) == DONE
    assert asked == [Request("tools/call", "look")] * 2 + [CALL] * 2


async def test_outside_of_the_boundary_nothing_passes(caplog: pytest.LogCaptureFixture) -> None:
    chain = Chain(SingleUse(MemoryGuard()))
    token = await chain.token()
    with pytest.raises(MCPError):
        await chain.single_use(context(state=token), Handler(DONE))
    assert "not opened by statebox's codec" in caplog.text


async def test_beside_another_codec_nothing_passes(caplog: pytest.LogCaptureFixture) -> None:
    other = RequestStateSecurity.ephemeral(audience="billing")
    chain = Chain(SingleUse(MemoryGuard()), other)
    token = await chain.token()
    assert await chain.refusal(context(state=token), caplog) == "malformed"
    # Nor with what statebox's codec has opened before, in the same task.
    ours = Chain(SingleUse(MemoryGuard()))
    await ours(context(state=await ours.token()), Handler(DONE))
    assert await chain.refusal(context(state=token), caplog) == "malformed"
    other_state = await ours(context(), Handler(paused("another state")))
    assert isinstance(other_state, dict)
    ours.security.codec.unseal(other_state["requestState"])
    assert await chain.refusal(context(state=token), caplog) == "malformed"


async def test_with_remember_a_state_that_comes_again_gets_the_first_answer() -> None:
    guard = MemoryGuard()
    events: list[Event] = []
    chain = Chain(SingleUse(guard, remember=guard, on_event=events.append))
    token = await chain.token()
    assert await chain(context(state=token), Handler(DONE)) == DONE
    assert await chain(context(state=token), Handler({"never": "given"})) == DONE
    name = token_id(from_text(token))
    assert events == [Recalled(token_id=name, method="tools/call", target="refund")]


async def test_what_is_kept_is_sealed_and_opens_as_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard, other = MemoryGuard(), MemoryGuard()
    chain = Chain(SingleUse(guard, remember=guard))
    tokens = [await chain.token() for _ in range(2)]
    for token in tokens:
        await chain(context(state=token), Handler({"said": "refunded"}))
    names = [token_id(from_text(token)) for token in tokens]
    kept = [await guard.get(name) or b"" for name in names]
    assert all(kept)
    assert b"refunded" not in kept[0]
    # Presented as a state, the SDK finds no claims in it.
    with pytest.raises(MCPError):
        await chain(context(state=kept[0].decode()), Handler(DONE))
    # Put in the place of another token's answer.
    claims = json.loads(chain.security.codec.unseal(tokens[0]))
    assert await other.consume(names[0], int(claims["exp"]) + 1)
    await other.put(names[0], kept[1], int(claims["exp"]) + 1)
    confused = Chain(SingleUse(other, remember=other), chain.security)
    assert await confused.refusal(context(state=tokens[0]), caplog) == "guard_unavailable"


class Down:
    """A guard whose store is down."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        raise OSError("connection refused")


async def test_a_guard_that_is_down_refuses_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []
    chain = Chain(SingleUse(Down(), on_event=events.append))
    token = await chain.token()
    assert await chain.refusal(context(state=token), caplog) == "guard_unavailable"
    failed, rejected = events
    assert failed == GuardFailed(guard="Down", reason="the guard raised OSError")
    assert isinstance(rejected, Rejected)
    assert rejected.code == "guard_unavailable"
    assert rejected.token_id == token_id(from_text(token))
    assert (rejected.method, rejected.target) == ("tools/call", "refund")


async def test_arguments_that_nothing_can_be_bound_to_spend_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The SDK's own digest takes any depth; the request that a predicate is asked about does not.
    deep: object = "x"
    for _ in range(70):
        deep = [deep]
    params = {"name": "refund", "arguments": {"deep": deep}}
    chain = Chain(SingleUse(MemoryGuard()))
    token = await chain.token(params)
    assert await chain.refusal(context(params, state=token), caplog) == "request"


async def test_a_codec_tells_what_it_seals_opens_and_refuses() -> None:
    events: list[Event] = []
    security = request_state_security(
        Keyring.generate(), audience="billing", on_event=events.append
    )
    guard = MemoryGuard()
    chain = Chain(SingleUse(guard, remember=guard), security)
    token = await chain.token()
    await chain(context(state=token), Handler(DONE))
    await chain(context(state=token), Handler(DONE))
    with pytest.raises(MCPError):
        await chain(context(state="sb1.AAAA"), Handler(DONE))
    sealed, opened, again, rejected = events
    assert isinstance(sealed, Sealed)
    assert sealed.token_id == token_id(from_text(token))
    assert sealed.flow is None
    assert opened == Opened(key_id=sealed.key_id, token_id=sealed.token_id, size=len(token))
    assert again == opened
    assert rejected == Rejected(code="malformed", size=8)


async def test_a_fastmcp_tool_may_call_another_one_in_its_turn() -> None:
    server = FastMCP(
        "refunds",
        request_state_security=request_state_security(Keyring.generate(), audience="billing"),
        middleware=[SealedStateOnly(), FastMCPSingleUse(MemoryGuard())],
    )

    async def inner(order: str) -> str:
        return f"looked at {order}"

    async def outer(order: str, ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is not None:
            await ctx.fastmcp.call_tool("look", {"order": order})
        return await refund(order, ctx.request_state, ctx.input_responses)

    server.tool(inner, name="look")
    server.tool(outer, name="refund")
    async with served(server.http_app()) as client:
        first = (await call(client))["result"]["requestState"]
        assert (
            "requestState"
            in (await call(client, requestState=first, inputResponses=NAME))["result"]
        )
        again = await call(client, requestState=first, inputResponses=NAME)
    assert again["error"]["message"] == "Invalid or expired requestState"


@pytest.mark.parametrize("only", ["refund", "other"])
async def test_a_predicate_tells_which_fastmcp_tools_are_single_use(only: str) -> None:
    asked: list[Request] = []

    def single_use(request: Request) -> bool:
        asked.append(request)
        return request.target == only

    server = fastmcp_server(
        request_state_security(Keyring.generate(), audience="billing"),
        middleware=[FastMCPSingleUse(MemoryGuard(), single_use=single_use)],
    )
    async with served(server.http_app()) as client:
        first = (await call(client))["result"]["requestState"]
        told = [await call(client, requestState=first, inputResponses=NAME) for _ in range(2)]
    assert ["error" in each for each in told] == [False, only == "refund"]
    assert asked == [Request("tools/call", "refund", {"order": "ORD-7001"})] * 2

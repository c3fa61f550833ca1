"""The boundary: what it opens, what it seals, and what it passes on untouched."""

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult

from statebox import Keyring, Request, Statebox
from statebox.mcp import StateboxBoundary
from tests.mcp.rounds import (
    CALL,
    ORDER,
    REFUND,
    STATE,
    Clock,
    Handler,
    context,
    paused,
    state_of,
)


@pytest.mark.parametrize(
    ("method", "params", "request_"),
    [
        ("tools/call", REFUND, CALL),
        (
            "prompts/get",
            {"name": "brief", "arguments": {"a": "1"}},
            Request("prompts/get", "brief", {"a": "1"}),
        ),
        ("resources/read", {"uri": "file:///motd"}, Request("resources/read", "file:///motd")),
    ],
    ids=["tool", "prompt", "resource"],
)
async def test_a_state_goes_out_sealed_for_its_request_and_comes_back_as_text(
    box: Statebox, method: str, params: dict[str, Any], request_: Request
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context(params, method=method))
    assert box.open(token, principal=None, request=request_).state == STATE
    handler = Handler(CallToolResult(content=[]))
    assert await boundary(context(params, method=method, state=token), handler) is handler.result
    assert handler.state == STATE


async def test_the_chain_sees_the_request_unchanged_but_for_its_state(box: Statebox) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    handler = Handler()
    ctx = context(REFUND | {"inputResponses": {"yes": {}}, "_meta": {"x": 1}}, state=token)
    await boundary(ctx, handler)
    assert handler.seen[0].params == {**(ctx.params or {}), "requestState": STATE}
    assert (ctx.params or {})["requestState"] == token
    assert replace(handler.seen[0], params=ctx.params) == ctx


async def test_a_result_keeps_all_but_its_state(box: Statebox) -> None:
    result = paused(STATE) | {"_meta": {"trace": "x"}}
    sealed = await StateboxBoundary(box)(context(), Handler(result))
    assert isinstance(sealed, dict)
    assert sealed.keys() == result.keys()
    assert {**sealed, "requestState": STATE} == result
    assert result["requestState"] == STATE


async def test_a_model_of_a_middleware_that_answers_itself_is_sealed_too(box: Statebox) -> None:
    result = InputRequiredResult(request_state=STATE)
    sealed = await StateboxBoundary(box)(context(), Handler(result))
    assert isinstance(sealed, InputRequiredResult)
    assert sealed.request_state is not None
    assert box.open(sealed.request_state, principal=None, request=CALL).state == STATE
    assert result.request_state == STATE


async def test_a_mapping_of_another_class_is_sealed_too(box: Statebox) -> None:
    result = MappingProxyType(paused(STATE))
    sealed = await StateboxBoundary(box)(context(), Handler(cast("dict[str, Any]", result)))
    assert isinstance(sealed, dict)
    token: str = sealed["requestState"]
    assert box.open(token, principal=None, request=CALL).state == STATE


@pytest.mark.parametrize(
    "params",
    [
        REFUND,
        REFUND | {"requestState": None},
        REFUND | {"requestState": None, "request_state": None},
        {},
    ],
    ids=["absent", "null", "null by both names", "no params"],
)
async def test_a_request_without_a_state_passes_untouched(
    box: Statebox, params: dict[str, Any]
) -> None:
    handler = Handler({"content": []})
    ctx = context(params)
    assert await StateboxBoundary(box)(ctx, handler) is handler.result
    assert handler.seen == [ctx]
    assert handler.seen[0] is ctx


async def test_a_request_without_params_passes_untouched(box: Statebox) -> None:
    ctx = context()
    ctx.params = None
    handler = Handler({"content": []})
    assert await StateboxBoundary(box)(ctx, handler) is handler.result


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"content": [], "requestState": STATE},
        {"resultType": "complete", "requestState": STATE},
        {"resultType": "input_required", "inputRequests": {}},
        {"resultType": "input_required", "requestState": None},
        CallToolResult(content=[]),
        InputRequiredResult(input_requests=None, request_state="").model_copy(
            update={"request_state": None}
        ),
    ],
    ids=["none", "no type", "complete", "no state", "null", "model", "model without a state"],
)
async def test_a_result_that_carries_no_state_passes_untouched(
    box: Statebox, result: HandlerResult
) -> None:
    assert await StateboxBoundary(box)(context(), Handler(result)) is result


@pytest.mark.parametrize(
    "method", ["tools/list", "initialize", "completion/complete", "vendor/ask"]
)
async def test_another_method_passes_untouched_with_whatever_it_carries(
    box: Statebox, method: str
) -> None:
    def principal(ctx: ServerRequestContext[Any, Any]) -> str:
        raise AssertionError("nobody asks who it is")

    handler = Handler(paused(STATE))
    ctx = context(method=method, state="no token")
    assert await StateboxBoundary(box, principal=principal)(ctx, handler) is handler.result
    assert handler.seen[0] is ctx


async def test_an_empty_state_is_a_state(box: Statebox) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context(), "")
    handler = Handler()
    await boundary(context(state=token), handler)
    assert handler.state == ""


async def test_the_next_round_stays_in_the_flow(box: Statebox, clock: Clock) -> None:
    boundary = StateboxBoundary(box)
    first = await state_of(boundary, context())
    clock.now += 60
    second = await state_of(boundary, context(state=first), "next")
    other_flow = await state_of(boundary, context())
    one, two, other = (
        box.open(t, principal=None, request=CALL) for t in (first, second, other_flow)
    )
    assert (one.round, two.round, other.round) == (1, 2, 1)
    assert two.flow == one.flow != other.flow
    assert two.deadline == one.deadline


async def test_a_state_is_bound_to_the_request_the_client_sent_and_not_to_what_became_of_it(
    box: Statebox,
) -> None:
    boundary = StateboxBoundary(box)

    async def careless(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        assert ctx.params is not None
        ctx.params["arguments"]["order"] = "changed in place"
        return paused(STATE)

    result = await boundary(context({"name": "refund", "arguments": dict(ORDER)}), careless)
    assert isinstance(result, dict)
    handler = Handler()
    await boundary(context(state=result["requestState"]), handler)
    assert handler.state == STATE


async def test_equal_numbers_are_the_same_arguments(box: Statebox) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    handler = Handler()
    as_float: dict[str, Any] = {
        "name": "refund",
        "arguments": {"cents": 1.5e3, "order": "ORD-7001"},
    }
    await boundary(context(as_float, state=token), handler)
    assert handler.state == STATE


async def test_an_error_of_the_handler_passes_as_it_is(box: Statebox) -> None:
    error = MCPError(code=-32000, message="the handler's own")

    async def fails(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        raise error

    with pytest.raises(MCPError) as caught:
        await StateboxBoundary(box)(context(), fails)
    assert caught.value is error


def test_a_boundary_takes_a_box_and_nothing_else(ring: Keyring) -> None:
    with pytest.raises(TypeError, match="takes a Statebox, not a Keyring"):
        StateboxBoundary(cast("Statebox", ring))


async def test_json_text_comes_back_as_the_text_it_was(box: Statebox) -> None:
    boundary = StateboxBoundary(box)
    for state in (json.dumps({"b": 1, "a": [1.0]}), '{"a" : 1}', "ünïcode \U0001f600", "\x00"):
        token = await state_of(boundary, context(), state)
        handler = Handler()
        await boundary(context(state=token), handler)
        assert handler.state == state

"""The boundary: what it opens, what it seals, what it passes on, and what it says when it refuses."""

import json
import logging
from typing import Any, cast

import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult

from statebox import Keyring, KeyringError, Request, Statebox
from statebox.bindings import Principal
from statebox.mcp import StateboxBoundary, StateboxCodec
from statebox.mcp.principal import PrincipalOption
from tests.mcp.identity import ISSUER, authenticated
from tests.mcp.rounds import ORDER, REFUND, Clock, Handler, context, paused

ALICE = [ISSUER, "alice", "app"]
CALL = Request("tools/call", "refund", ORDER)
STATE = '{"step":"confirm","secret":"sentinel-of-the-state"}'


@pytest.fixture
def box(ring: Keyring, clock: Clock) -> Statebox:
    return Statebox(ring, audience="billing", clock=clock)


async def state_of(
    boundary: StateboxBoundary, ctx: ServerRequestContext[Any, Any], state: object = STATE
) -> str:
    """Run a round that pauses; give the token that went out."""
    result = await boundary(ctx, Handler(paused(state)))
    assert isinstance(result, dict)
    token = result["requestState"]
    assert isinstance(token, str)
    return token


async def refusal(
    boundary: StateboxBoundary,
    ctx: ServerRequestContext[Any, Any],
    caplog: pytest.LogCaptureFixture,
) -> logging.LogRecord:
    """Run a round whose state must be refused; give the one line that was logged."""
    handler = Handler()
    caplog.clear()
    with pytest.raises(MCPError) as caught:
        await boundary(ctx, handler)
    assert handler.seen == []
    assert caught.value.code == -32602
    assert caught.value.message == "Invalid or expired requestState"
    assert caught.value.data == {"reason": "invalid_request_state"}
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("statebox.mcp", "WARNING")
    return record


async def failure(
    boundary: StateboxBoundary,
    ctx: ServerRequestContext[Any, Any],
    caplog: pytest.LogCaptureFixture,
    result: HandlerResult,
) -> logging.LogRecord:
    """Run a round whose state cannot be sealed; give the one line that was logged."""
    caplog.clear()
    with pytest.raises(MCPError) as caught:
        await boundary(ctx, Handler(result))
    assert (caught.value.code, caught.value.message) == (-32603, "Internal error")
    assert caught.value.data is None
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("statebox.mcp", "ERROR")
    return record


def code(record: logging.LogRecord) -> object:
    return record.__dict__["statebox_code"]


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


@pytest.mark.parametrize(
    "params",
    [REFUND, REFUND | {"requestState": None}, {}],
    ids=["absent", "null", "no params"],
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


async def test_a_flow_cannot_be_kept_alive_beyond_its_deadline(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    box = Statebox(ring, audience="billing", ttl=600, max_flow_age=1000, clock=clock)
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    clock.now += 500
    token = await state_of(boundary, context(state=token))
    clock.now += 500
    assert code(await refusal(boundary, context(state=token), caplog)) == "expired"


async def test_a_handler_that_outlives_its_flow_cannot_pause_again(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(Statebox(ring, audience="billing", max_flow_age=1000, clock=clock))
    token = await state_of(boundary, context())

    async def slow(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        clock.now += 1000
        return paused(STATE)

    with pytest.raises(MCPError, match="Internal error"):
        await boundary(context(state=token), slow)
    assert [code(record) for record in caplog.records] == ["flow_expired"]


async def test_a_flow_has_no_more_rounds_than_the_box_allows(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(Statebox(ring, audience="billing", max_rounds=2, clock=clock))
    token = await state_of(boundary, context())
    token = await state_of(boundary, context(state=token))
    record = await failure(boundary, context(state=token), caplog, paused(STATE))
    assert code(record) == "too_many_rounds"


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


@pytest.mark.parametrize(
    "changed",
    [
        {"arguments": ORDER | {"cents": 1501}},
        {"arguments": {"order": "ORD-7001"}},
        {"arguments": None},
        {"name": "refund_all"},
    ],
    ids=str,
)
async def test_a_state_for_another_request_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture, changed: dict[str, Any]
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    record = await refusal(boundary, context(REFUND | changed, state=token), caplog)
    assert code(record) == "request"


async def test_a_state_of_one_method_is_refused_for_another(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    record = await refusal(boundary, context(method="prompts/get", state=token), caplog)
    assert code(record) == "request"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "params",
    [
        {"name": 7},
        {"name": "refund", "arguments": "text"},
        {"name": "refund", "arguments": {"a": nested(100)}},
        {"name": "refund", "arguments": {"a": nested(100_000)}},
    ],
    ids=["name", "arguments", "deep", "deeper"],
)
async def test_a_request_that_nothing_can_be_bound_to_passes_until_it_has_a_state(
    box: Statebox, caplog: pytest.LogCaptureFixture, params: dict[str, Any]
) -> None:
    boundary = StateboxBoundary(box)
    handler = Handler({"content": []})
    assert await boundary(context(params), handler) is handler.result
    token = await state_of(boundary, context())
    assert code(await refusal(boundary, context(params, state=token), caplog)) == "request"
    assert code(await failure(boundary, context(params), caplog, paused(STATE))) == "request"


@pytest.mark.parametrize("state", [7, True, {}, [], ["sb1."], 1.5, "", "sb1.", "x" * 70_000])
async def test_what_is_no_token_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture, state: object
) -> None:
    record = await refusal(StateboxBoundary(box), context(state=state), caplog)
    assert code(record) == ("too_large" if state == "x" * 70_000 else "malformed")


async def test_a_state_that_is_not_text_is_refused_coming_in(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    token = box.seal({"step": "confirm"}, principal=None, request=CALL)
    record = await refusal(StateboxBoundary(box), context(state=token), caplog)
    turn = box.open(token, principal=None, request=CALL)
    assert code(record) == "malformed"
    assert record.__dict__["statebox_kid"] == turn.key_id
    assert record.__dict__["statebox_token"] == turn.token_id[:8]


@pytest.mark.parametrize("state", [{"step": 1}, ["step"], 7, b"bytes"], ids=str)
async def test_a_state_that_is_not_text_does_not_go_out(
    box: Statebox, caplog: pytest.LogCaptureFixture, state: object
) -> None:
    record = await failure(StateboxBoundary(box), context(), caplog, paused(state))
    assert code(record) == "unsupported_state"


async def test_a_state_that_is_too_large_does_not_go_out(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    box = Statebox(ring, audience="billing", max_token_chars=300, clock=clock)
    record = await failure(StateboxBoundary(box), context(), caplog, paused("x" * 300))
    assert code(record) == "too_large"
    assert "raise max_token_chars" in record.getMessage()


async def test_without_an_active_key_nothing_goes_out(
    box: Statebox, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now = 0
    record = await failure(StateboxBoundary(box), context(), caplog, paused(STATE))
    assert code(record) == "keyring"


class Fragile:
    """A live source that can break."""

    def __init__(self, ring: Keyring) -> None:
        self.ring = ring
        self.broken = False

    def current(self) -> Keyring:
        if self.broken:
            raise KeyringError("the source is gone")
        return self.ring

    def reread(self) -> Keyring:
        return self.current()


async def test_a_source_that_breaks_refuses_what_comes_in(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    source = Fragile(ring)
    boundary = StateboxBoundary(Statebox(source, audience="billing", clock=clock))
    token = await state_of(boundary, context())
    source.broken = True
    assert code(await refusal(boundary, context(state=token), caplog)) == "keyring"


async def test_the_log_names_the_reason_the_key_the_flow_and_the_token(
    box: Statebox, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    turn = box.open(token, principal=None, request=CALL)
    clock.now += 600
    record = await refusal(boundary, context(state=token), caplog)
    assert record.getMessage() == (
        "requestState refused on tools/call: expired: expired 0 s ago "
        f"(kid={turn.key_id} flow={turn.flow} token={turn.token_id[:8]})"
    )
    fields = {k: v for k, v in record.__dict__.items() if k.startswith("statebox_")}
    assert fields == {
        "statebox_code": "expired",
        "statebox_method": "tools/call",
        "statebox_kid": turn.key_id,
        "statebox_flow": turn.flow,
        "statebox_token": turn.token_id[:8],
    }


async def test_what_an_unauthenticated_token_says_is_not_logged(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    record = await refusal(StateboxBoundary(box), context(state="sb1.AAAA"), caplog)
    assert record.getMessage().endswith("(kid=- flow=- token=-)")


async def test_no_line_holds_a_token_a_state_a_principal_or_a_name_of_the_clients(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    with authenticated("sentinel-of-alice"):
        token = await state_of(boundary, context())
        tampered = token[:-30] + token[-30:].swapcase()
        other = REFUND | {"name": "sentinel\r\nof the client"}
        lines = [
            await refusal(boundary, context(state=tampered), caplog),
            await refusal(boundary, context(other, state=token), caplog),
            await failure(boundary, context(), caplog, paused(["sentinel-of-the-state"])),
        ]
    with authenticated("sentinel-of-bob"):
        lines.append(await refusal(boundary, context(state=token), caplog))
    for record in lines:
        said = repr(record.__dict__)
        assert "sentinel" not in said
        assert token[20:40] not in said


async def test_a_codecs_token_is_refused(
    ring: Keyring, box: Statebox, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    token = StateboxCodec(ring, clock=clock).seal(b"anything")
    assert code(await refusal(StateboxBoundary(box), context(state=token), caplog)) == "malformed"


async def test_a_state_of_another_service_is_refused(
    ring: Keyring, box: Statebox, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    token = await state_of(StateboxBoundary(box), context())
    shipping = StateboxBoundary(Statebox(ring, audience="shipping", clock=clock))
    assert code(await refusal(shipping, context(state=token), caplog)) == "audience"


async def test_a_state_under_a_revoked_key_is_refused(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    box = Statebox(ring, audience="billing", clock=clock)
    token = await state_of(StateboxBoundary(box), context())
    jwks = ring.to_jwks()
    jwks["keys"][0]["revoked"] = {"revoked_at": int(clock.now)}
    revoked = Keyring.from_jwks(jwks)
    after = StateboxBoundary(Statebox(revoked, audience="billing", clock=clock))
    assert code(await refusal(after, context(state=token), caplog)) == "revoked_key"


async def test_a_state_is_bound_to_the_authenticated_user(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    with authenticated("alice"):
        token = await state_of(boundary, context())
        assert box.open(token, principal=ALICE, request=CALL).state == STATE
    with authenticated("bob"):
        assert code(await refusal(boundary, context(state=token), caplog)) == "principal"
    with authenticated("alice", issuer="https://other.example"):
        assert code(await refusal(boundary, context(state=token), caplog)) == "principal"
    assert code(await refusal(boundary, context(state=token), caplog)) == "principal"
    with authenticated("alice"):
        handler = Handler()
        await boundary(context(state=token), handler)
        assert handler.state == STATE


async def test_a_state_of_nobody_is_refused_to_somebody(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    with authenticated("alice"):
        assert code(await refusal(boundary, context(state=token), caplog)) == "principal"


async def test_none_binds_nobody(box: Statebox) -> None:
    boundary = StateboxBoundary(box, principal=None)
    with authenticated("alice"):
        token = await state_of(boundary, context())
    assert box.open(token, principal=None, request=CALL).state == STATE


async def test_a_callable_says_who_is_asking_once_a_round(box: Statebox) -> None:
    asked: list[ServerRequestContext[Any, Any]] = []

    def principal(ctx: ServerRequestContext[Any, Any]) -> Principal:
        asked.append(ctx)
        return ["tenant-1", "alice"]

    boundary = StateboxBoundary(box, principal=principal)
    token = await state_of(boundary, context())
    assert box.open(token, principal=["tenant-1", "alice"], request=CALL).state == STATE
    ctx = context(state=token)
    await state_of(boundary, ctx)
    assert len(asked) == 2
    assert asked[1] is ctx


async def test_nobody_asks_who_it_is_where_no_state_is_carried(box: Statebox) -> None:
    def principal(ctx: ServerRequestContext[Any, Any]) -> str:
        raise AssertionError("not asked")

    handler = Handler({"content": []})
    assert await StateboxBoundary(box, principal=principal)(context(), handler) is handler.result


def raises(ctx: ServerRequestContext[Any, Any]) -> str:
    raise RuntimeError("sentinel")


def answers(answer: object) -> PrincipalOption:
    return lambda _: cast("Principal", answer)


@pytest.mark.parametrize(
    "principal",
    ["require", raises, answers(7), answers([None])],
    ids=["require", "raises", "number", "part"],
)
async def test_a_principal_that_cannot_be_told_fails_closed_both_ways(
    box: Statebox, caplog: pytest.LogCaptureFixture, principal: PrincipalOption
) -> None:
    unbound = await state_of(StateboxBoundary(box, principal=None), context())
    boundary = StateboxBoundary(box, principal=principal)
    coming_in = await refusal(boundary, context(state=unbound), caplog)
    going_out = await failure(boundary, context(), caplog, paused(STATE))
    assert (code(coming_in), code(going_out)) == ("principal", "principal")
    assert "sentinel" not in coming_in.getMessage() + going_out.getMessage()


async def test_require_serves_an_authenticated_user(box: Statebox) -> None:
    boundary = StateboxBoundary(box, principal="require")
    with authenticated("alice"):
        token = await state_of(boundary, context())
        handler = Handler()
        await boundary(context(state=token), handler)
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


def test_a_principal_option_of_another_kind_fails_at_once(box: Statebox) -> None:
    with pytest.raises(TypeError, match="principal"):
        StateboxBoundary(box, principal=cast("PrincipalOption", "alice"))


async def test_json_text_comes_back_as_the_text_it_was(box: Statebox) -> None:
    boundary = StateboxBoundary(box)
    for state in (json.dumps({"b": 1, "a": [1.0]}), '{"a" : 1}', "ünïcode \U0001f600", "\x00"):
        token = await state_of(boundary, context(), state)
        handler = Handler()
        await boundary(context(state=token), handler)
        assert handler.state == state

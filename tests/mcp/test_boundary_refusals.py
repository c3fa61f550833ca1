"""What the boundary refuses, coming in and going out, and what it says in the log."""

from typing import Any

import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from statebox import Keyring, KeyringError, Statebox
from statebox.events import Event, Rejected
from statebox.mcp import StateboxBoundary, StateboxCodec
from tests.mcp.identity import authenticated
from tests.mcp.rounds import (
    CALL,
    ORDER,
    REFUND,
    STATE,
    Clock,
    Handler,
    code,
    context,
    failure,
    paused,
    refusal,
    state_of,
)


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


@pytest.mark.parametrize("beside", ["nothing", "null", "a token"])
@pytest.mark.parametrize("state", ["sentinel", "", 7, {}], ids=repr)
@pytest.mark.parametrize(
    ("method", "target"),
    [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")],
)
async def test_a_state_by_its_python_name_is_refused_whatever_comes_beside_it(
    box: Statebox,
    caplog: pytest.LogCaptureFixture,
    method: str,
    target: str,
    state: object,
    beside: str,
) -> None:
    boundary = StateboxBoundary(box)
    params: dict[str, Any] = {target: "refund"}
    token = await state_of(boundary, context(params, method=method))
    by_its_own: dict[str, dict[str, Any]] = {
        "nothing": {},
        "null": {"requestState": None},
        "a token": {"requestState": token},
    }
    forged = context(params | by_its_own[beside] | {"request_state": state}, method=method)
    record = await refusal(boundary, forged, caplog)
    assert record.getMessage() == (
        f"requestState refused on {method}: malformed: the params hold request_state, which nothing "
        "opens: on the wire it is requestState (kid=- flow=- token=-)"
    )
    handler = Handler()
    await boundary(context(params, method=method, state=token), handler)
    assert handler.state == STATE


@pytest.mark.parametrize(
    ("arguments", "event"),
    [
        (ORDER, Rejected(code="malformed", method="tools/call", target="refund")),
        ({"order": {1}}, Rejected(code="malformed")),
    ],
    ids=["a request", "none that can be digested"],
)
async def test_a_state_by_its_python_name_is_told_apart_in_events(
    ring: Keyring, clock: Clock, arguments: dict[str, Any], event: Rejected
) -> None:
    events: list[Event] = []
    box = Statebox(ring, audience="billing", clock=clock, on_event=events.append)
    forged = REFUND | {"arguments": arguments, "request_state": STATE}
    with pytest.raises(MCPError):
        await StateboxBoundary(box)(context(forged), Handler())
    assert events == [event]


async def test_a_state_that_is_not_text_is_refused_coming_in(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    token = box.seal({"step": "confirm"}, principal=None, request=CALL)
    record = await refusal(StateboxBoundary(box), context(state=token), caplog)
    turn = box.open(token, principal=None, request=CALL)
    assert code(record) == "malformed"
    assert record.__dict__["statebox_kid"] == turn.key_id
    assert record.__dict__["statebox_token"] == turn.token_id[:8]


async def test_a_state_that_is_not_text_is_an_event_as_well(ring: Keyring, clock: Clock) -> None:
    events: list[Event] = []
    box = Statebox(ring, audience="billing", clock=clock, on_event=events.append)
    token = box.seal({"step": "confirm"}, principal=None, request=CALL)
    with pytest.raises(MCPError):
        await StateboxBoundary(box)(context(state=token), Handler())
    assert [type(event).__name__ for event in events] == ["Sealed", "Opened", "Rejected"]


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

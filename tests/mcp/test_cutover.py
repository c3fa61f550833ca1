"""Moving off the SDK's codec at the boundary: its tokens are accepted as it would, and never made."""

import dataclasses
import json
import logging
import time
import traceback
from typing import Any, cast

import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateSecurity,
    compact_json,
)
from mcp.shared.exceptions import MCPError

from statebox import Keyring, Statebox
from statebox.events import Event, Opened, Rejected
from statebox.mcp import StateboxBoundary
from statebox.mcp.cutover import SDK_KEY, SDKKeys, SDKPrincipal, SDKState
from statebox.replay import MemoryGuard
from tests.mcp.identity import authenticated
from tests.mcp.rounds import CALL, ORDER, REFUND, STATE, Handler, context, paused, state_of

KEY = "the secret of the old deployment, long enough"
OTHER_KEY = "another secret that is as long as it has to be"
SDK_LOG = "mcp.server.request_state"
Context = ServerRequestContext[Any, Any]


@pytest.fixture
def box() -> Statebox:
    # The SDK's claims are checked by the system's clock, so the box has that one too.
    return Statebox(Keyring.generate(), audience="billing")


def before(key: str = KEY, **options: Any) -> RequestStateBoundary:
    """Give the boundary of the old deployment, a server called "billing"."""
    security = RequestStateSecurity(keys=[key], **options)
    return RequestStateBoundary(security, default_audience="billing")


def after(box: Statebox, **options: Any) -> StateboxBoundary:
    """Give the boundary that accepts what the old one has sealed."""
    return StateboxBoundary(box, accept_sdk_keys=[KEY], **options)


async def sealed_before(ctx: Context | None = None, **options: Any) -> str:
    """Run a round of the old deployment; give the token that went out."""
    result = await before(**options)(context() if ctx is None else ctx, Handler(paused(STATE)))
    assert isinstance(result, dict)
    token: str = result["requestState"]
    assert token.startswith("v1.")
    return token


async def seen(boundary: StateboxBoundary, ctx: Context) -> object:
    """Run a round; give the state that its handler saw."""
    handler = Handler()
    await boundary(ctx, handler)
    return handler.state


async def refused(
    boundary: StateboxBoundary, ctx: Context, caplog: pytest.LogCaptureFixture
) -> list[tuple[str, str]]:
    """Run a round that must be refused; give each line's logger with its reason."""
    caplog.clear()
    handler = Handler()
    with pytest.raises(MCPError) as caught:
        await boundary(ctx, handler)
    assert handler.seen == []
    assert (caught.value.code, caught.value.message, caught.value.data) == (
        -32602,
        "Invalid or expired requestState",
        {"reason": "invalid_request_state"},
    )
    said = "".join(traceback.format_exception(caught.value)) + caplog.text
    for secret in (STATE, KEY, "alice", "ORD-7001", str((ctx.params or {})["requestState"])[10:40]):
        assert secret not in said
    return [
        (record.name, record.__dict__.get("statebox_code") or record.getMessage().split(": ")[1])
        for record in caplog.records
    ]


def by_the_sdk(reason: str) -> list[tuple[str, str]]:
    return [(SDK_LOG, reason), ("statebox.mcp", "claim")]


async def test_a_flow_of_the_old_deployment_goes_on_as_one_of_ours(box: Statebox) -> None:
    token = await sealed_before()
    handler = Handler(paused("next"))
    result = await after(box)(context(state=token), handler)
    assert handler.state == STATE
    assert isinstance(result, dict)
    turn = box.open(result["requestState"], principal=None, request=CALL)
    assert (turn.state, turn.round) == ("next", 1)


async def test_what_the_chain_sees_is_unchanged_but_for_the_state(box: Statebox) -> None:
    handler = Handler({"content": []})
    ctx = context(
        REFUND | {"inputResponses": {"yes": {}}, "_meta": {"x": 1}}, state=await sealed_before()
    )
    assert await after(box)(ctx, handler) is handler.result
    assert handler.seen[0].params == {**(ctx.params or {}), "requestState": STATE}
    assert len(handler.seen) == 1


@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_prompts_and_resources_move_too(box: Statebox, method: str) -> None:
    params = {"uri": "file:///motd"} if method == "resources/read" else {"name": "brief"}
    token = await sealed_before(context(params, method=method))
    assert await seen(after(box), context(params, method=method, state=token)) == STATE


async def test_nothing_is_sealed_as_the_sdk_does(box: Statebox) -> None:
    boundary = after(box)
    first = await state_of(boundary, context())
    second = await state_of(boundary, context(state=await sealed_before()))
    third = await state_of(boundary, context(state=second))
    assert [token[:4] for token in (first, second, third)] == ["sb1."] * 3


async def test_every_key_of_the_old_deployment_opens(box: Statebox) -> None:
    boundary = StateboxBoundary(box, accept_sdk_keys=[OTHER_KEY, KEY.encode()])
    assert await seen(boundary, context(state=await sealed_before())) == STATE
    assert await seen(boundary, context(state=await sealed_before(key=OTHER_KEY))) == STATE


async def test_without_keys_a_token_of_the_sdks_is_malformed(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = context(state=await sealed_before())
    assert await refused(StateboxBoundary(box), ctx, caplog) == [("statebox.mcp", "malformed")]


async def test_a_token_under_another_key_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = context(state=await sealed_before(key=OTHER_KEY))
    assert await refused(after(box), ctx, caplog) == [("statebox.mcp", "authentication")]


@pytest.mark.parametrize("text", ["v1.", "v1.%%%", "v1.é", "v1.\ud800", "v1. "], ids=ascii)
async def test_text_that_is_no_token_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    reasons = await refused(after(box), context(state=text + "A" * 40), caplog)
    assert reasons == [("statebox.mcp", "authentication")]


async def test_every_change_of_a_character_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    token = await sealed_before()
    boundary = after(box)
    for place in range(3, len(token)):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        reasons = await refused(boundary, context(state=changed), caplog)
        assert reasons == [("statebox.mcp", "authentication")]


@pytest.mark.parametrize(
    ("changed", "method"),
    [
        ({"arguments": ORDER | {"cents": 1501}}, "tools/call"),
        ({"arguments": None}, "tools/call"),
        ({"name": "refund_all"}, "tools/call"),
        ({}, "prompts/get"),
    ],
    ids=str,
)
async def test_a_token_for_another_request_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], method: str
) -> None:
    ctx = context(REFUND | changed, method=method, state=await sealed_before())
    assert await refused(after(box), ctx, caplog) == by_the_sdk("request binding")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iat": -1200.0, "exp": -600.0}, "expired"),
        ({"iat": 3600.0, "exp": 7200.0}, "minted in the future"),
        ({"exp": None}, "malformed"),
        ({"s": None}, "malformed"),
        ({"v": 2}, "malformed"),
        ({"p": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}, "principal drift"),
    ],
    ids=str,
)
async def test_each_claim_is_checked_as_the_sdk_checks_it(
    box: Statebox, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], reason: str
) -> None:
    claims = await claims_of(await sealed_before())
    times = {name: time.time() + changed[name] for name in ("iat", "exp") if changed.get(name)}
    claims = {k: v for k, v in (claims | changed | times).items() if v is not None}
    token = AESGCMRequestStateCodec([KEY]).seal(compact_json(claims).encode())
    assert await refused(after(box), context(state=token), caplog) == by_the_sdk(reason)


async def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(AESGCMRequestStateCodec([KEY]).unseal(token))
    return claims


@pytest.mark.parametrize("payload", [b"", b"no JSON", b"[]", b"null", b"\xff"])
async def test_what_holds_no_claims_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture, payload: bytes
) -> None:
    token = AESGCMRequestStateCodec([KEY]).seal(payload)
    assert await refused(after(box), context(state=token), caplog) == by_the_sdk("malformed")


async def test_a_token_of_another_service_with_the_same_keys_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = context(state=await sealed_before(audience="shipping"))
    assert await refused(after(box), ctx, caplog) == by_the_sdk("audience")


async def test_the_old_audience_can_be_another_than_the_box_has(box: Statebox) -> None:
    token = await sealed_before(audience="shipping")
    assert await seen(after(box, sdk_audience="shipping"), context(state=token)) == STATE


async def test_the_old_deployment_may_have_had_no_audience(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    old = RequestStateBoundary(RequestStateSecurity(keys=[KEY]), default_audience=None)
    result = await old(context(), Handler(paused(STATE)))
    assert isinstance(result, dict)
    ctx = context(state=result["requestState"])
    assert await seen(after(box, sdk_audience=""), ctx) == STATE
    assert await refused(after(box), ctx, caplog) == by_the_sdk("audience")


async def test_a_token_is_for_the_user_it_was_sealed_for(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    with authenticated("alice"):
        token = await sealed_before()
        assert await seen(after(box), context(state=token)) == STATE
        next_token = await state_of(after(box), context(state=token))
    with authenticated("bob"):
        assert await refused(after(box), context(state=token), caplog) == by_the_sdk("principal")
    drift = await refused(after(box), context(state=token), caplog)
    assert drift == by_the_sdk("principal drift")
    alice = ["https://login.example", "alice", "app"]
    assert box.open(next_token, principal=alice, request=CALL).state == STATE


def called(name: str) -> SDKPrincipal:
    return lambda _: name


async def test_the_old_deployment_may_have_bound_to_a_principal_of_its_own(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    token = await sealed_before(bind_principal=called("tenant-1"))

    def answers(ctx: Context) -> list[str]:
        return ["tenant", "1"]

    moved = after(box, principal=answers, sdk_principal=called("tenant-1"))
    next_token = await state_of(moved, context(state=token))
    assert box.open(next_token, principal=["tenant", "1"], request=CALL).state == STATE
    stranger = after(box, sdk_principal=called("tenant-2"))
    assert await refused(stranger, context(state=token), caplog) == by_the_sdk("principal")
    nobody = after(box, sdk_principal=None)
    assert await refused(nobody, context(state=token), caplog) == by_the_sdk("principal drift")


async def test_what_this_boundary_requires_holds_for_the_old_tokens_too(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = context(state=await sealed_before())
    strict = after(box, principal="require")
    assert await refused(strict, ctx, caplog) == [("statebox.mcp", "principal")]
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    ctx = context({"name": "refund", "arguments": {"a": deep}}, state=await sealed_before())
    assert await refused(after(box), ctx, caplog) == [("statebox.mcp", "request")]


async def test_each_accepted_token_is_logged_once_by_its_id(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with authenticated("alice"):
        token = await sealed_before()
        next_token = await state_of(after(box), context(state=token))
        await seen(after(box), context(state=next_token))
    (record,) = caplog.records
    name = record.__dict__["statebox_token"]
    assert (record.name, record.levelname) == ("statebox.mcp", "INFO")
    assert record.getMessage() == f"sdk token accepted on tools/call (token={name})"
    assert len(name) == 8
    said = repr(record.__dict__)
    assert not any(secret in said for secret in (token[10:40], "alice", "ORD-7001", STATE))


async def test_the_hook_hears_of_old_tokens() -> None:
    events: list[Event] = []
    box = Statebox(Keyring.generate(), audience="billing", on_event=events.append)
    boundary = after(box)
    token, strange = await sealed_before(), await sealed_before(key=OTHER_KEY)
    await seen(boundary, context(state=token))
    for ctx in (context(state=strange), context(REFUND | {"name": "other"}, state=token)):
        with pytest.raises(MCPError):
            await boundary(ctx, Handler())
    opened, unknown, other = events
    assert isinstance(opened, Opened)
    assert (opened.key_id, opened.size, opened.flow) == (SDK_KEY, len(token), None)
    assert (opened.method, opened.target) == ("tools/call", "refund")
    assert opened.age is not None
    assert 0 <= opened.age < 60
    assert isinstance(unknown, Rejected)
    assert (unknown.code, unknown.token_id, unknown.key_id) == ("authentication", None, None)
    assert isinstance(other, Rejected)
    assert (other.code, other.token_id, other.target) == ("claim", opened.token_id, "other")


async def test_single_use_holds_for_an_old_token(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = after(box, guard=MemoryGuard())
    token = await sealed_before()
    assert await seen(boundary, context(state=token)) == STATE
    assert await refused(boundary, context(state=token), caplog) == [("statebox.mcp", "replayed")]
    assert await seen(boundary, context(state=await sealed_before())) == STATE


async def test_an_old_token_that_is_older_than_the_guards_memory_is_refused(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    claims = await claims_of(await sealed_before())
    earlier = {name: claims[name] - 60 for name in ("iat", "exp")}
    token = AESGCMRequestStateCodec([KEY]).seal(compact_json(claims | earlier).encode())
    ctx = context(state=token)
    assert await seen(after(box), ctx) == STATE
    guarded = after(box, guard=MemoryGuard())
    assert await refused(guarded, ctx, caplog) == [("statebox.mcp", "guard_unavailable")]


async def test_an_answer_to_an_old_token_is_given_again(box: Statebox) -> None:
    guard = MemoryGuard()
    boundary = after(box, guard=guard, remember=guard)
    token = await sealed_before()
    handler = Handler(paused("next"))
    first = await boundary(context(state=token), handler)
    assert await boundary(context(state=token), handler) == first
    assert len(handler.seen) == 1


async def test_an_old_token_is_remembered_until_it_ends(box: Statebox) -> None:
    class Guard:
        async def consume(self, token_id: str, expires_at: int, issued_at: int) -> bool:
            asked.append((token_id, expires_at, issued_at))
            return True

    asked: list[tuple[str, int, int]] = []
    token = await sealed_before()
    claims = await claims_of(token)
    await seen(after(box, guard=Guard()), context(state=token))
    ((token_id, expires_at, issued_at),) = asked
    assert len(bytes.fromhex(token_id)) == 16
    assert 0 <= expires_at - claims["exp"] < 1
    assert 0 <= claims["iat"] - issued_at < 1


def test_a_state_does_not_show_its_text() -> None:
    state = SDKState(STATE, "00" * 16, 1, 2)
    assert "sentinel" not in repr(state)
    assert dataclasses.asdict(state)["state"] == STATE


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ([], ValueError),
        (["short-sentinel"], ValueError),
        ([KEY, KEY], ValueError),
        ([32], TypeError),
        (KEY, ValueError),
        (KEY.encode(), TypeError),
    ],
    ids=["none", "short", "twice", "number", "text", "bytes"],
)
def test_keys_that_the_sdk_does_not_take_fail_at_once_and_are_not_shown(
    box: Statebox, keys: SDKKeys, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        StateboxBoundary(box, accept_sdk_keys=keys)
    said = "".join(traceback.format_exception(caught.value))
    assert "sentinel" not in str(caught.value)
    assert KEY not in said


@pytest.mark.parametrize("options", [{"sdk_audience": "billing"}, {"sdk_principal": None}], ids=str)
def test_options_without_keys_fail_at_once(box: Statebox, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need accept_sdk_keys="):
        StateboxBoundary(box, **options)


async def test_a_principal_of_the_old_deployment_that_raises_refuses_the_round(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(ctx: Context) -> str:
        raise LookupError("sentinel")

    boundary = after(box, sdk_principal=cast("SDKPrincipal", raises))
    ctx = context(state=await sealed_before())
    caplog.clear()
    with pytest.raises(MCPError):
        await boundary(ctx, Handler())
    assert [record.name for record in caplog.records] == [SDK_LOG, SDK_LOG, "statebox.mcp"]

"""Moving off the SDK's codec through ours: its tokens are opened, never made, and mean the same."""

import logging
import traceback
from typing import Any

import pytest
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateSecurity,
)
from mcp.server.request_state import authenticated_principal as sdk_principal
from mcp.shared.exceptions import MCPError

from statebox import AuthenticationError, Keyring, MalformedTokenError, Statebox
from statebox.bindings import Principal
from statebox.events import Event, Opened, Rejected
from statebox.mcp import SingleUse, StateboxCodec, request_state_security
from statebox.mcp.cutover import SDK_KEY, SDKKeys
from statebox.replay import MemoryGuard
from tests.mcp.identity import authenticated
from tests.mcp.rounds import STATE, Handler, context, paused

KEY = "the secret of the old deployment, long enough"
OTHER_KEY = "another secret that is as long as it has to be"
CLAIMS = b'{"v":1,"s":"the claims of the SDK"}'
Context = ServerRequestContext[Any, Any]


@pytest.fixture
def ring() -> Keyring:
    return Keyring.generate()


def sealed_before(key: str = KEY, claims: bytes = CLAIMS) -> str:
    return AESGCMRequestStateCodec([key]).seal(claims)


async def went_out(boundary: RequestStateBoundary, ctx: Context) -> str:
    """Run a round that pauses; give the token that went out."""
    result = await boundary(ctx, Handler(paused(STATE)))
    assert isinstance(result, dict)
    token: str = result["requestState"]
    return token


def test_a_token_of_the_sdks_codec_opens(ring: Keyring) -> None:
    codec = StateboxCodec(ring, accept_sdk_keys=[OTHER_KEY, KEY])
    assert codec.unseal(sealed_before()) == CLAIMS
    assert codec.unseal(sealed_before(OTHER_KEY)) == CLAIMS


def test_ours_open_beside_it_and_are_all_that_is_made(ring: Keyring) -> None:
    codec = StateboxCodec(ring, accept_sdk_keys=[KEY])
    token = codec.seal(CLAIMS)
    assert token.startswith("sb1.")
    assert codec.unseal(token) == StateboxCodec(ring).unseal(token) == CLAIMS


def reason(codec: StateboxCodec, token: str) -> InvalidRequestState:
    with pytest.raises(InvalidRequestState) as caught:
        codec.unseal(token)
    return caught.value


def test_without_keys_it_is_malformed(ring: Keyring) -> None:
    error = reason(StateboxCodec(ring), sealed_before())
    assert str(error) == "malformed"
    assert isinstance(error.__cause__, MalformedTokenError)


@pytest.mark.parametrize(
    "token",
    [sealed_before(OTHER_KEY), sealed_before() + "A", "v1.", "v1.AAAA", "v1.é", "v1.\ud800"],
    ids=["another key", "longer", "empty", "short", "no ASCII", "no UTF-8"],
)
def test_what_no_key_opens_is_refused(ring: Keyring, token: str) -> None:
    error = reason(StateboxCodec(ring, accept_sdk_keys=[KEY]), token)
    assert str(error) == "authentication"
    assert isinstance(error.__cause__, AuthenticationError)
    said = "".join(traceback.format_exception(error))
    assert KEY not in said
    assert len(token) < 20 or token[10:40] not in said


def test_every_change_of_a_character_is_refused(ring: Keyring) -> None:
    codec = StateboxCodec(ring, accept_sdk_keys=[KEY])
    token = sealed_before()
    for place, character in enumerate(token):
        changed = token[:place] + ("A" if character != "A" else "B") + token[place + 1 :]
        assert str(reason(codec, changed)) in {"authentication", "malformed"}


def test_an_old_token_is_no_native_one(ring: Keyring) -> None:
    with pytest.raises(MalformedTokenError):
        Statebox(ring, audience="billing").open(sealed_before(), principal=None, request=None)


def test_each_opened_token_is_logged_once_and_told_to_the_hook(
    ring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    events: list[Event] = []
    codec = StateboxCodec(ring, accept_sdk_keys=[KEY], on_event=events.append)
    token = sealed_before()
    codec.unseal(token)
    reason(codec, sealed_before(OTHER_KEY))
    opened, rejected = events
    assert isinstance(opened, Opened)
    assert (opened.key_id, opened.size) == (SDK_KEY, len(token))
    assert isinstance(rejected, Rejected)
    assert rejected.code == "authentication"
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("statebox.mcp", "INFO")
    assert record.getMessage() == f"sdk token accepted on - (token={opened.token_id[:8]})"


@pytest.mark.parametrize(
    "keys", [[], ["short-sentinel"], [KEY, KEY]], ids=["none", "short", "twice"]
)
def test_keys_that_the_sdk_does_not_take_fail_at_once(ring: Keyring, keys: SDKKeys) -> None:
    with pytest.raises(ValueError, match="key") as caught:
        request_state_security(ring, audience="billing", accept_sdk_keys=keys)
    assert "sentinel" not in str(caught.value)


async def test_a_flow_of_the_old_deployment_goes_on_behind_the_sdks_boundary(
    ring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    old = RequestStateBoundary(RequestStateSecurity(keys=[KEY]), default_audience="billing")
    policy = request_state_security(ring, audience="billing", accept_sdk_keys=[KEY])
    new = RequestStateBoundary(policy, default_audience=None)
    with authenticated("alice"):
        before = await went_out(old, context())
        after = await went_out(new, context(state=before))
        handler = Handler()
        await new(context(state=after), handler)
    assert handler.state == STATE
    assert [before[:3], after[:4]] == ["v1.", "sb1."]
    for state in (before, after):
        caplog.clear()
        with authenticated("bob"), pytest.raises(MCPError):
            await new(context(state=state), Handler())
        assert caplog.records[-1].getMessage().endswith(": principal")


async def test_a_flow_of_another_service_is_refused(
    ring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    old = RequestStateBoundary(RequestStateSecurity(keys=[KEY]), default_audience="shipping")
    policy = request_state_security(ring, audience="billing", accept_sdk_keys=[KEY])
    state = await went_out(old, context())
    with pytest.raises(MCPError):
        await RequestStateBoundary(policy, default_audience=None)(context(state=state), Handler())
    assert caplog.records[-1].getMessage().endswith(": audience")


async def test_single_use_holds_for_an_old_token(
    ring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    old = RequestStateBoundary(RequestStateSecurity(keys=[KEY]), default_audience="billing")
    policy = request_state_security(ring, audience="billing", accept_sdk_keys=[KEY])
    new, once = RequestStateBoundary(policy, default_audience=None), SingleUse(MemoryGuard())
    handler = Handler()
    ctx = context(state=await went_out(old, context()))
    await new(ctx, lambda opened: once(opened, handler))
    with pytest.raises(MCPError):
        await new(ctx, lambda opened: once(opened, handler))
    assert len(handler.seen) == 1
    assert caplog.records[-1].__dict__["statebox_code"] == "replayed"


@pytest.mark.parametrize("subject", ["alice", None])
def test_a_policy_binds_to_the_text_that_the_sdk_binds_to(
    ring: Keyring, subject: str | None
) -> None:
    default = request_state_security(ring, audience="billing").bind_principal
    required = request_state_security(ring, audience="billing", principal="require").bind_principal
    assert default is not None
    assert required is not None
    with authenticated(subject):
        assert default(context()) == required(context()) == sdk_principal(context())
    assert default(context()) is sdk_principal(context()) is None


@pytest.mark.parametrize("name", ["alice", '["al","ice"]', " ", "é"])
def test_a_text_of_a_callable_is_bound_as_the_sdk_would_bind_it(ring: Keyring, name: str) -> None:
    def principal(ctx: Context) -> Principal:
        return name

    policy = request_state_security(ring, audience="billing", principal=principal)
    assert policy.bind_principal is not None
    assert policy.bind_principal(context()) == name


def test_no_two_lists_and_no_text_are_one_principal(ring: Keyring) -> None:
    def bound(principal: Principal) -> str | None:
        def answer(ctx: Context) -> Principal:
            return principal

        policy = request_state_security(ring, audience="billing", principal=answer)
        assert policy.bind_principal is not None
        return policy.bind_principal(context())

    names: list[Principal] = [
        "a",
        ["a", "b"],
        ["a", ""],
        ["ab", ""],
        '["a","b"]',
        '\0["a","b"]',
        "\0a",
    ]
    assert len({bound(name) for name in names}) == len(names)
    assert bound(["a"]) == bound("a")
    assert bound(["\0a"]) == bound("\0a")

"""The codec: seals what the SDK gives it, refuses with statebox's code, and is not the native box."""

import traceback
from pathlib import Path
from typing import cast

import pytest
from mcp.server.request_state import InvalidRequestState, RequestStateCodec, compact_json

from statebox import (
    Key,
    Keyring,
    KeyringError,
    MalformedTokenError,
    OpenError,
    SealError,
    Statebox,
)
from statebox.bindings import Principal
from statebox.mcp import StateboxCodec, authenticated_principal, request_state_security
from statebox.sources import open_source
from tests.mcp.rounds import Clock, context

CLAIMS = compact_json(
    {
        "v": 1,
        "iat": 1790000000.25,
        "exp": 1790000600.25,
        "m": "tools/call",
        "t": "refund",
        "a": "AAECAwQFBgcICQoLDA0ODw",
        "s": "a secret state",
        "aud": "billing",
    }
).encode()


def code_of(codec: StateboxCodec, token: str) -> str:
    """Give the reason for which a codec refuses a token."""
    with pytest.raises(InvalidRequestState) as caught:
        codec.unseal(token)
    assert isinstance(caught.value.__cause__, OpenError)
    assert caught.value.__cause__.code == str(caught.value)
    return str(caught.value)


@pytest.fixture
def codec(ring: Keyring, clock: Clock) -> StateboxCodec:
    return StateboxCodec(ring, clock=clock)


def test_a_codec_is_what_the_sdk_asks_for(codec: StateboxCodec) -> None:
    asked_for: RequestStateCodec = codec
    assert asked_for.unseal(asked_for.seal(b"anything")) == b"anything"


def test_another_process_with_the_ring_gives_the_same_bytes_back(
    ring: Keyring, clock: Clock
) -> None:
    token = StateboxCodec(ring, clock=clock).seal(CLAIMS)
    elsewhere = StateboxCodec(Keyring.from_json(ring.to_json()), clock=clock)
    assert elsewhere.unseal(token) == CLAIMS


def test_no_two_tokens_are_alike_under_encryption(clock: Clock) -> None:
    codec = StateboxCodec(Keyring.generate(now=clock.now), clock=clock)
    assert codec.seal(CLAIMS) != codec.seal(CLAIMS)


def test_every_change_of_a_character_is_refused(codec: StateboxCodec) -> None:
    token = codec.seal(CLAIMS)
    for place, character in enumerate(token):
        changed = token[:place] + ("A" if character != "A" else "B") + token[place + 1 :]
        assert code_of(codec, changed) in {"malformed", "unknown_key", "authentication"}


@pytest.mark.parametrize("token", ["", "sb1.", "v1.AAAA", "sb1.AAAA", "\ud800", "sb1.é"])
def test_text_that_is_no_token_is_malformed(codec: StateboxCodec, token: str) -> None:
    assert code_of(codec, token) == "malformed"


@pytest.mark.parametrize("token", [None, 7, b"sb1.", ["sb1."]])
def test_what_is_no_text_is_malformed(codec: StateboxCodec, token: object) -> None:
    assert code_of(codec, cast("str", token)) == "malformed"


def test_each_state_of_a_key_has_its_code(clock: Clock) -> None:
    now = int(clock.now)
    keys = [Key.generate(kid=kid, now=now, nbf=now - age) for age, kid in enumerate("abc")]
    tokens = [StateboxCodec(Keyring([key]), clock=clock).seal(CLAIMS) for key in keys]
    jwks = Keyring([keys[0], keys[1], keys[2].replace(exp=now)]).to_jwks()
    for jwk in jwks["keys"]:
        if jwk["kid"] == "b":
            jwk["revoked"] = {"revoked_at": now}
    codec = StateboxCodec(Keyring.from_jwks(jwks), clock=clock)
    assert codec.unseal(tokens[0]) == CLAIMS
    assert [code_of(codec, token) for token in tokens[1:]] == ["revoked_key", "expired_key"]
    stranger = StateboxCodec(Keyring.generate(now=now), clock=clock)
    assert code_of(stranger, tokens[0]) == "unknown_key"


def test_a_native_token_does_not_open_as_a_codecs(ring: Keyring, clock: Clock) -> None:
    box = Statebox(ring, audience="billing", clock=clock)
    token = box.seal("state", principal="alice", request=None)
    assert code_of(StateboxCodec(ring, clock=clock), token) == "malformed"


def test_a_codecs_token_does_not_open_as_a_native_one(ring: Keyring, clock: Clock) -> None:
    box = Statebox(ring, audience="billing", clock=clock)
    for payload in (CLAIMS, b"carried as it came"):
        token = StateboxCodec(ring, clock=clock).seal(payload)
        with pytest.raises(MalformedTokenError):
            box.open(token, principal=None, request=None)


def test_a_token_over_the_cap_is_neither_made_nor_read(ring: Keyring, clock: Clock) -> None:
    small = StateboxCodec(ring, max_token_chars=300, clock=clock)
    with pytest.raises(SealError) as caught:
        small.seal(b"x" * 300)
    assert caught.value.code == "too_large"
    token = StateboxCodec(ring, clock=clock).seal(b"x" * 300)
    assert code_of(small, token) == "too_large"


def test_sealing_without_an_active_key_is_an_error(ring: Keyring) -> None:
    with pytest.raises(KeyringError):
        StateboxCodec(ring, clock=Clock(0)).seal(CLAIMS)


def test_neither_the_token_nor_the_state_is_in_what_a_refusal_says(
    codec: StateboxCodec, ring: Keyring, clock: Clock
) -> None:
    token = codec.seal(CLAIMS)
    native = Statebox(ring, audience="billing", clock=clock).seal(
        "a secret state", principal="alice", request=None
    )
    for refused in (token[:-1] + "!", native):
        with pytest.raises(InvalidRequestState) as caught:
            codec.unseal(refused)
        said = "".join(traceback.format_exception(caught.value))
        assert "a secret state" not in said
        assert refused[10:30] not in said


def test_the_policy_has_the_codec_and_what_it_was_given(ring: Keyring) -> None:
    security = request_state_security(ring, audience="billing", ttl=900)
    assert isinstance(security.codec, StateboxCodec)
    assert (security.audience, security.ttl) == ("billing", 900)
    assert security.bind_principal is not None


@pytest.mark.parametrize("form", ["path", "text", "source"])
def test_the_policy_reads_its_ring_from_a_file(ring_files: dict[str, Path], form: str) -> None:
    path = ring_files["A256GCM"]
    forms: dict[str, str | Path] = {"path": path, "text": str(path), "source": f"file:{path}"}
    security = request_state_security(forms[form], audience="billing")
    token = StateboxCodec(Keyring.load(path)).seal(CLAIMS)
    assert security.codec.unseal(token) == CLAIMS


def test_the_policy_takes_a_live_source(ring_files: dict[str, Path]) -> None:
    source = open_source(str(ring_files["A256GCM"]))
    security = request_state_security(source, audience="billing")
    assert security.codec.unseal(security.codec.seal(CLAIMS)) == CLAIMS


def test_the_policy_passes_its_cap_and_its_clock_on(ring: Keyring, clock: Clock) -> None:
    security = request_state_security(ring, audience="billing", max_token_chars=300, clock=clock)
    with pytest.raises(SealError):
        security.codec.seal(b"x" * 300)
    clock.now = 0
    with pytest.raises(KeyringError):
        security.codec.seal(b"x")


@pytest.mark.parametrize("ttl", [0, -1, 0.5, 3601, float("nan"), float("inf")])
def test_a_ttl_that_cannot_work_with_the_ring_fails_at_once(ring: Keyring, ttl: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        request_state_security(ring, audience="billing", ttl=ttl)


def test_an_empty_audience_fails_at_once(ring: Keyring) -> None:
    with pytest.raises(ValueError, match="audience"):
        request_state_security(ring, audience="")


def test_a_missing_keyring_file_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyringError):
        request_state_security(tmp_path / "absent.json", audience="billing")


def test_a_principal_of_parts_keeps_their_borders(ring: Keyring) -> None:
    def bound(principal: Principal | None) -> str | None:
        security = request_state_security(ring, audience="billing", principal=lambda _: principal)
        assert security.bind_principal is not None
        return security.bind_principal(context())

    names: list[Principal] = ["alice", ["alice"], ["al", "ice"], ["alice", ""], '["al","ice"]']
    assert bound("alice") == bound(["alice"])
    assert len({bound(name) for name in names}) == len(names) - 1
    assert bound(None) is None


def test_a_policy_that_binds_nobody_says_so(ring: Keyring) -> None:
    security = request_state_security(ring, audience="billing", principal=None)
    assert security.bind_principal is not None
    assert security.bind_principal(context()) is None


def test_by_default_a_policy_asks_the_sdk_who_it_is(ring: Keyring) -> None:
    security = request_state_security(ring, audience="billing")
    assert security.bind_principal is not None
    assert authenticated_principal(context()) is None
    assert security.bind_principal(context()) is None


def test_nothing_decrypted_is_reachable_from_a_refusal() -> None:
    """A native token under the same ring is authentic, so the codec has decrypted it."""
    ring = Keyring.generate()
    token = Statebox(ring, audience="billing").seal("sentinel-state", principal=None, request=None)
    with pytest.raises(InvalidRequestState) as caught:
        StateboxCodec(ring).unseal(token)
    cause = caught.value.__cause__
    assert cause is not None
    assert (cause.__traceback__, cause.__cause__, cause.__context__) == (None, None, None)

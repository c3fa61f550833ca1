"""Hostile tokens, most of them authentic: `make fuzz` throws them until it has thrown enough."""

from __future__ import annotations

import json

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from statebox import Keyring, KeyringError, OpenError
from statebox.claims import Layout, decode_payload
from statebox.envelope import from_text, to_text
from statebox.state import decode_state, encode_state
from tests.fuzz.material import cbor, payloads, tokens
from tests.samples import AUDIENCE, NOW, REQUEST, box, key, maker, ring
from tests.vectors import independent
from tests.vectors.forge import payload_of
from tests.vectors.plain_cbor import Raw, RefusedError

BOX = box([key(), key("key-1b", "HS256", nbf=NOW - 5), key("other", "HS256", nbf=NOW - 9)])
BOTH = {alg: box(alg) for alg in ("A256GCM", "HS256")}


@given(token=tokens())
@example(token="")
@example(token="sb1.")
@example(token="sb1." + "\ud800" * 99)
def test_opening_raises_open_errors_alone_and_what_opens_has_one_spelling(token: str) -> None:
    for alg, here in BOTH.items():
        try:
            turn = here.open(token, principal=None, request=None)
        except OpenError as error:
            event(f"{alg}: {error.code}")
            continue
        event(f"{alg}: opened")
        payload = Layout(turn.audience.encode()).encode(
            turn.expires_at,
            turn.issued_at,
            bytes.fromhex(turn.flow),
            turn.round,
            turn.deadline,
            None,
            None,
            encode_state(turn.state),
        )
        message = from_text(token)
        at = message.index(b"\xa1\x05\x4c") + 3 if alg == "A256GCM" else 0
        assert maker(alg=alg).token(payload, iv=message[at : at + 12]) == token


@given(payload=payloads())
@example(payload=payload_of(state=Raw(b"\x78")))
@example(payload=payload_of(state=Raw(b"\x79\x01")))
def test_two_implementations_judge_every_authentic_payload_alike(payload: bytes) -> None:
    for alg, here in BOTH.items():
        token = maker(alg=alg).token(payload)
        try:
            found = independent.open_token(
                token, ring(alg).to_jwks(), independent.Presenter(NOW, AUDIENCE)
            )
            theirs = f"opened {found['state']!r}"
        except RefusedError as refused:
            theirs = str(refused)
        try:
            ours = f"opened {here.open(token, principal=None, request=None).state!r}"
        except OpenError as error:
            ours = error.code
        event(ours.split(" ")[0])
        assert ours == theirs


@given(payload=payloads())
def test_what_reads_as_a_payload_was_written_so(payload: bytes) -> None:
    try:
        claims = decode_payload(payload)
    except ValueError:
        event("refused")
        with pytest.raises(ValueError):  # noqa: PT011 - the same, by the usual way
            Layout(b"billing").decode(payload, REQUEST.cbor)
        return
    event("read")
    fields, principal, request, state = Layout(b"billing").decode(payload, REQUEST.cbor)
    assert (*fields, principal, request, state) == claims
    assert Layout(claims.audience).encode(*claims[1:]) == payload


@given(data=cbor | st.binary(max_size=60))
def test_what_reads_as_a_state_was_written_so(data: bytes) -> None:
    try:
        state = decode_state(data)
    except ValueError:
        return
    event(type(state).__name__)
    assert encode_state(state) == data


@given(message=st.binary(max_size=200))
def test_any_message_raises_open_errors_alone(message: bytes) -> None:
    for start in (
        b"",
        b"\xd0\x83",
        b"\xd1\x84",
        b"\xd0\x83\x4a\xa2\x01\x03\x04\x45key-1\xa1\x05\x4c",
    ):
        try:
            BOX.open(to_text(start + message), principal="alice", request=REQUEST)
        except OpenError as error:
            event(error.code)


MEMBERS = ["keys", "max_ttl", "kty", "kid", "alg", "k", "iat", "nbf", "exp", "revoked", "x"]
NAMES = st.sampled_from(MEMBERS)
JSON: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=15,
)
JWKS = ring().to_jwks()


@given(
    value=JSON,
    name=NAMES,
    inside=st.booleans(),
)
def test_any_keyring_is_a_ring_or_a_keyring_error(value: object, name: str, inside: bool) -> None:
    jwk = JWKS["keys"][0]
    jwks = {"keys": [jwk | {name: value}]} if inside else JWKS | {name: value}
    for jwk_set in (jwks, value):
        try:
            made = Keyring.from_jwks(jwk_set)
        except KeyringError as error:
            event(error.message.split(":")[-1][:30])
            with pytest.raises(KeyringError):
                Keyring.from_json(json.dumps(jwk_set))
        else:
            event("a ring")
            assert Keyring.from_json(made.to_json()) == made


@given(text=st.text(max_size=100) | st.binary(max_size=100))
def test_any_keyring_file_is_a_ring_or_a_keyring_error(text: str | bytes) -> None:
    with pytest.raises(KeyringError):
        Keyring.from_json(text)

"""Faults that others had, each tried on statebox.

A test is named by the advisory, the CVE or the project that it was found in. Most forge a token
with the right key first, so that the one thing under test is all that stands in the way.
"""

from __future__ import annotations

import base64
import copy
import hmac
import json
import pickle
from functools import partial
from typing import Any, cast

import pytest

from statebox import (
    AuthenticationError,
    ExpiredTokenError,
    Keyring,
    KeyringError,
    MalformedTokenError,
    OpenError,
    PrincipalError,
    Request,
    RequestError,
    UnknownKeyError,
)
from statebox.state import State
from tests.samples import ALGORITHMS, NOW, Clock, box, key, maker, ring, secret
from tests.vectors.forge import Maker, payload_of
from tests.vectors.independent import message_of, text_of
from tests.vectors.plain_cbor import Raw, encode
from tests.work import calls

each_alg = pytest.mark.parametrize("alg", ALGORITHMS)


def refused(token: str, alg: str = "A256GCM", **bound: Any) -> OpenError:
    with pytest.raises(OpenError) as caught:
        box(alg).open(token, **({"principal": None, "request": None} | bound))
    return caught.value


# --- algorithms ---------------------------------------------------------------------------------


def test_cve_2015_9235_a_token_does_not_choose_its_algorithm() -> None:
    """jsonwebtoken: a token that says HS256 was checked with the RSA key's public bytes.

    Here: the content of a signed token under the kid of an encrypting key, with that key's secret.
    """
    for mine, other in (ALGORITHMS, ALGORITHMS[::-1]):
        forged = Maker("key-1", other, secret(f"key-1 {mine}")).token(payload_of())
        assert isinstance(refused(forged, mine), UnknownKeyError)


def test_cve_2015_2951_alg_none_is_no_algorithm() -> None:
    """Several JWT libraries took an unsigned token whose header said `none`."""
    for number in (0, -1, None, "none", "None", "nOnE"):
        header = encode({1: number, 4: b"key-1"})
        for alg in ALGORITHMS:
            forged = Maker("key-1", alg, secret(f"key-1 {alg}"), header).token(payload_of())
            assert isinstance(refused(forged, alg), UnknownKeyError)


def test_cve_2020_28042_an_empty_signature_is_no_signature() -> None:
    """ServiceStack: a token without a signature was valid; others took one of zeros."""
    for unsigned in (b"", bytes(32), bytes(8)):
        message = b"\xd1\x84" + encode(encode({1: 5, 4: b"key-1"})) + b"\xa0"
        forged = text_of(message + encode(payload_of()) + encode(unsigned))
        assert isinstance(refused(forged, "HS256"), MalformedTokenError | AuthenticationError)


def test_ghsa_ffqj_6fqr_9h24_a_key_of_another_kind_is_no_secret() -> None:
    """PyJWT (CVE-2022-29217): a public key in PEM or SSH form was taken as an HMAC secret."""
    jwk = {"kty": "RSA", "kid": "key-1", "alg": "RS256", "n": "AQAB", "e": "AQAB"}
    for wrong in (
        jwk,
        jwk | {"alg": "HS256"},
        jwk | {"kty": "oct"},
        jwk | {"kty": "oct", "alg": "HS256"},
    ):
        with pytest.raises(KeyringError):
            Keyring.from_jwks({"keys": [wrong]})
    pem = (
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----"
    )
    with pytest.raises(KeyringError):
        Keyring.from_jwks({"keys": [{"kty": "oct", "kid": "key-1", "alg": "HS256", "k": pem}]})


def test_cve_2024_33663_one_secret_serves_one_algorithm() -> None:
    """python-jose: algorithm confusion, for a key says not what it is for. Such a ring is refused."""
    k = base64.urlsafe_b64encode(secret("x")).decode().rstrip("=")
    twins = [
        {"kty": "oct", "kid": alg, "alg": alg, "k": k, "nbf": at}
        for at, alg in enumerate(ALGORITHMS)
    ]
    with pytest.raises(KeyringError, match="have one secret"):
        Keyring.from_jwks({"keys": twins})


def test_ghsa_752w_5fwx_jx9f_no_header_is_passed_over_because_it_is_not_known() -> None:
    """PyJWT (CVE-2026-32597): a `crit` header was ignored. Here no header but the two is taken."""
    for header in ({1: 3, 2: [99], 4: b"key-1", 99: 1}, {1: 3, 4: b"key-1", 99: 1}):
        forged = Maker("key-1", "A256GCM", secret("key-1 A256GCM"), encode(header))
        assert isinstance(refused(forged.token(payload_of())), UnknownKeyError)


def test_cve_2022_39227_one_message_has_one_parse() -> None:
    """python-jwt: compact and JSON form were parsed by two parsers, which saw two tokens."""
    token = maker().token(payload_of())
    jws = json.dumps({"protected": "e30", "payload": token, "signature": ""})
    for other in (jws, f"{token}.{token}", f"{token}.", f"{token}..", token + "\0" + token):
        assert isinstance(refused(other), MalformedTokenError)


# --- text forms ---------------------------------------------------------------------------------


@each_alg
@pytest.mark.parametrize(
    "added", ["!", "=", "==", "===", "\n", "\r\n", " ", "\t", "*", "\n*", "\x00"]
)
def test_fernet_a_token_with_something_added_is_another_token(alg: str, added: str) -> None:
    """`urlsafe_b64decode` skips what it does not know; Fernet opens a token with `!` appended."""
    token = maker(alg=alg).token(payload_of())
    assert base64.urlsafe_b64decode(token[4:] + "!===") is not None
    for forged in (
        token + added,
        added + token,
        token[:4] + added + token[4:],
        token[:40] + added + token[40:],
    ):
        assert isinstance(refused(forged, alg), MalformedTokenError)


@each_alg
def test_itsdangerous_no_two_last_characters_stand_for_one_signature(alg: str) -> None:
    """Four of the 64 last characters were taken, for their low bits are not used."""
    for size in range(3):
        token = maker(alg=alg).token(payload_of(state="x" * size))
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        opened = 0
        for last in alphabet:
            try:
                box(alg).open(token[:-1] + last, principal=None, request=None)
            except OpenError:
                continue
            opened += 1
        assert opened == 1


# --- claims -------------------------------------------------------------------------------------

ODD_TIMES = [
    None,
    [1],
    {},
    {1: 1},
    True,
    "",
    "99999999999",
    "nan",
    b"\x01",
    -1,
    1.5,
    float("inf"),
    1 << 64,
]


@each_alg
@pytest.mark.parametrize("claim", ["exp", "iat", "deadline"])
@pytest.mark.parametrize("value", ODD_TIMES, ids=repr)
def test_pyjwt_a_time_of_the_wrong_type_is_a_typed_refusal(
    alg: str, claim: str, value: object
) -> None:
    """An authentic `exp` of a list leaked TypeError, and the text "99999999999" was accepted."""
    assert isinstance(
        refused(maker(alg=alg).token(payload_of(**{claim: value})), alg), MalformedTokenError
    )


def test_rfc_8725_no_number_makes_a_token_that_never_ends() -> None:
    """Times beyond what a clock can show, as floats, infinities and bignums."""
    for value in (1e300, float("inf"), float("nan"), 1 << 40, 1 << 63, 1 << 200):
        token = maker().token(payload_of(exp=value, deadline=value))
        assert isinstance(refused(token), MalformedTokenError)


def test_ghsa_75c5_xw7c_p5pm_an_audience_that_begins_alike_is_another() -> None:
    """PyJWT 2.10: the issuer was compared by `in`, so that a part of it was enough."""
    for audience in ("billin", "b", "billing,", "billing2", "xbilling"):
        assert refused(maker().token(payload_of(aud=audience))).code == "audience"
    assert refused(maker().token(payload_of(aud=["billing", "others"]))).code == "malformed"


def test_fernet_no_lifetime_is_looked_at_before_the_tag() -> None:
    """The ttl was checked before the signature: an oracle on what nobody had authenticated."""
    message = message_of(maker(alg="HS256").token(payload_of(iat=1, exp=2, deadline=2)))
    forged = text_of(message[:-1] + bytes([message[-1] ^ 1]))
    assert isinstance(refused(forged, "HS256"), AuthenticationError)
    assert isinstance(refused(text_of(message), "HS256"), ExpiredTokenError)


def test_itsdangerous_the_payload_is_not_on_the_exception() -> None:
    """`BadSignature.payload` held what was not authenticated, and was used."""
    message = message_of(maker(alg="HS256").token(payload_of(state="sentinel")))
    error = refused(text_of(message[:-1] + bytes([message[-1] ^ 1])), "HS256")
    assert {name for name, value in vars(error).items() if value is not None} == {
        "message",
        "hint",
        "key_id",
    }
    assert "sentinel" not in repr(vars(error)) + repr(error.args)


@each_alg
def test_kid_injection_a_kid_is_compared_and_never_interpreted(alg: str) -> None:
    """Elsewhere a kid became a path, a query, a command, an address to fetch a key from."""
    kids = (
        b"../../../../dev/null",
        b"key-1' OR '1'='1",
        b"http://mallory/jwks.json",
        b"|id",
        b"key-1\0",
        b"KEY-1",
        b"",
        b"k" * 5000,
    )
    for kid in kids:
        header = encode({1: {"A256GCM": 3, "HS256": 5}[alg], 4: kid})
        forged = Maker("key-1", alg, secret(f"key-1 {alg}"), header).token(payload_of())
        assert isinstance(refused(forged, alg), UnknownKeyError)


def test_cve_2018_0114_a_key_in_the_header_is_not_used() -> None:
    """node-jose took the key from the token itself."""
    header = encode({1: 5, 4: b"key-1", -1: {1: 4, -1: bytes(32)}})
    assert isinstance(
        refused(Maker("key-1", "HS256", bytes(32), header).token(payload_of()), "HS256"),
        UnknownKeyError,
    )


# --- decoders -----------------------------------------------------------------------------------


def test_cve_2026_26209_a_deep_message_is_not_decoded() -> None:
    """cbor2: recursion without a bound; encoding 10,000 levels still ends the interpreter."""
    for deep in (
        b"\x81" * 40_000,
        b"\xd8\x1c" * 20_000,
        b"\xa1\x01" * 20_000,
        b"\xd0\x83" + b"\x81" * 40_000,
    ):
        assert isinstance(refused(text_of(deep)), MalformedTokenError)
        assert isinstance(refused(maker().token(payload_of(state=Raw(deep)))), MalformedTokenError)


def test_cve_2024_26134_a_long_head_reads_no_further_than_the_message() -> None:
    """cbor2 read beyond its buffer for a string that claimed to be longer than it was."""
    for size in (1 << 8, 1 << 16, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
        for major in (2, 3, 4, 5, 6):
            head = bytes([major << 5 | 27]) + size.to_bytes(8, "big")
            assert isinstance(
                refused(maker().token(payload_of(state=Raw(head + b"a" * 300)))),
                MalformedTokenError,
            )
            assert isinstance(refused(text_of(b"\xd0\x83" + head)), MalformedTokenError)


def test_cve_2025_68131_no_token_refers_to_what_another_held() -> None:
    """cbor2: values that were shared in one message could be read by the next."""
    shared = maker().token(payload_of(state=Raw(b"\x82\xd8\x1c\x81\x61s\xd8\x1d\x00")))
    for state in (b"\xd8\x1d\x00", b"\x81\xd8\x1d\x00"):
        assert isinstance(refused(shared), MalformedTokenError)
        assert isinstance(refused(maker().token(payload_of(state=Raw(state)))), MalformedTokenError)


def test_billion_laughs_a_state_of_references_is_refused_at_once() -> None:
    """300 bytes that stand for 2^60 lists."""
    state = b"\xd8\x1c\x80"
    for level in range(60, 0, -1):
        state = b"\xd8\x1c\x82" + state + b"\xd8\x1d" + encode(level)
    token = maker().token(payload_of(state=Raw(state)))
    assert isinstance(refused(token), MalformedTokenError)
    assert calls(lambda: refused(token)) < 1000


def test_cve_2012_4929_crime_nothing_is_compressed() -> None:
    """A secret beside text that the attacker chooses must not show in the length."""
    tokens = {
        len(box().seal({"secret": "4711", "guess": guess}, principal=None, request=None))
        for guess in ("4711", "0000", "abcd", "4714")
    }
    assert len(tokens) == 1
    here = box()
    assert len(here.seal("a" * 3000, principal=None, request=None)) > 4000


def test_pickle_in_sessions_no_object_is_made_from_a_token() -> None:
    """Django, Flask and others: a leaked signing key was remote code, for sessions were pickles."""
    for state in (
        Raw(encode(pickle.dumps(Exception))),
        Raw(b"\xd8\x23\x61a"),
        Raw(b"\xd9\x01\x02\x80"),
    ):
        token = maker().token(payload_of(state=state))
        try:
            found: object = box().open(token, principal=None, request=None).state
        except MalformedTokenError:
            continue
        assert type(found) is bytes


def test_cve_2024_33664_a_small_token_does_not_become_a_large_state() -> None:
    """python-jose: a compressed JWE of 250 KB became hundreds of MB ("JWT bomb")."""
    states: list[State] = ["x" * 40_000, b"\0" * 40_000, list(range(15_000))]
    for state in states:
        token = box().seal(state, principal=None, request=None)
        opened = box().open(token, principal=None, request=None).state
        assert len(cast("str", opened)) <= len(token)


# --- bindings -----------------------------------------------------------------------------------


def test_mcp_session_hijacking_a_state_of_another_user_does_not_open() -> None:
    """The confused deputy of the MCP specification's security page."""
    call = Request("tools/call", "refund", {"order": "ORD-7001"})
    token = box().seal("s", principal=("iss", "alice", "client"), request=call)
    for other in (
        ("iss", "bob", "client"),
        ("other", "alice", "client"),
        ("iss", "alice"),
        "alice",
        None,
    ):
        assert isinstance(refused(token, principal=other, request=call), PrincipalError)


def test_joined_parts_do_not_make_one_principal_of_two() -> None:
    """`issuer + subject` as one text lets one user pick another's name; a separator only helps."""
    pairs = [("a", "bc"), ("ab", "c"), ("abc",), ("a|bc",), ("a\0bc",), ("", "abc"), ("abc", "")]
    for mine in pairs:
        token = box().seal("s", principal=mine, request=None)
        for other in pairs:
            if other != mine:
                assert isinstance(refused(token, principal=other), PrincipalError)


def test_a_confirmation_of_one_order_does_not_confirm_another() -> None:
    """A token for 15.00 presented with 1500.00, and with numbers that only look alike."""
    order = {"order": "ORD-7001", "cents": 1500}
    token = box().seal("confirmed", principal=None, request=Request("tools/call", "refund", order))
    for cents in (150_000, 1500.5, "1500", True, None, [1500], -1500):
        other = Request("tools/call", "refund", order | {"cents": cents})
        assert isinstance(refused(token, request=other), RequestError)


def test_json_interoperability_equal_numbers_do_not_lock_a_client_out() -> None:
    """Clients write 1500 as 1500.0 or 1.5e3; the SDK's digest of the text takes them for others."""
    here = box()
    token = here.seal(
        "s", principal=None, request=Request("tools/call", "t", json.loads('{"n": 1500}'))
    )
    for text in ('{"n": 1500.0}', '{"n": 1.5e3}', '{"n":15e2}'):
        request = Request("tools/call", "t", json.loads(text))
        assert here.open(token, principal=None, request=request).state == "s"


# --- keys ---------------------------------------------------------------------------------------


def test_tink_and_fernet_a_key_does_not_leak_by_repr_pickle_or_copy() -> None:
    for thing in (key(), ring()):
        assert "secret" not in repr(thing)
        with pytest.raises(TypeError):
            pickle.dumps(thing)
        assert copy.deepcopy(thing) is thing


def test_rfc_8725_a_secret_that_could_be_guessed_is_refused() -> None:
    """§3.5: from one signed token a weak secret is guessed off line."""
    for size in (0, 1, 16, 31):
        k = base64.urlsafe_b64encode(b"s" * size).decode().rstrip("=")
        with pytest.raises(KeyringError):
            Keyring.from_jwks({"keys": [{"kty": "oct", "kid": "a", "alg": "HS256", "k": k}]})


def test_multifernet_no_token_is_tried_under_every_key() -> None:
    """Trial decryption makes each unknown token as dear as the ring is long."""
    token = maker("other").token(payload_of())
    # Of one length, and of several, where the header's length is read from the token.
    for few, many in ((range(10, 12), range(10, 50)), ((1, 10), range(40))):
        rings = ([key(f"k{number}", nbf=number) for number in numbers] for numbers in (few, many))
        work = [calls(partial(_refused_by, box(ring), token)) for ring in rings]
        assert work[0] == work[1]


def _refused_by(here: Any, token: str) -> None:
    with pytest.raises(UnknownKeyError):
        here.open(token, principal=None, request=None)


def test_cve_2016_7036_a_signature_is_not_compared_byte_by_byte() -> None:
    """python-jose: `==` on tags. Here a wrong one costs the same, however much of it is right."""
    message = message_of(maker(alg="HS256").token(payload_of()))
    right = message[-32:]
    assert hmac.digest(b"", b"", "sha256") != right
    here = box("HS256")
    here.open(text_of(message), principal=None, request=None)
    wrong = [text_of(message[:-32] + right[:kept] + bytes(32 - kept)) for kept in range(32)]
    costs = {calls(partial(_not_authentic, here, token)) for token in wrong}
    assert len(costs) == 1


def _not_authentic(here: Any, token: str) -> None:
    with pytest.raises(AuthenticationError):
        here.open(token, principal=None, request=None)


def test_key_reuse_between_services_a_token_is_for_one_audience() -> None:
    """RFC 8725 §3.9: substitution between two services that share a ring."""
    token = box(audience="billing").seal("s", principal="alice", request=None)
    with pytest.raises(OpenError) as caught:
        box(audience="shipping").open(token, principal="alice", request=None)
    assert caught.value.code == "audience"


def test_cross_jwt_confusion_a_codec_payload_never_opens_as_a_native_one() -> None:
    """RFC 8725 §2.8: the codec's tokens are sealed by the same key for another purpose."""
    inner = [1, "refund", b"\x01" * 16, None, "state"]
    for payload in ({3: "billing", 4: NOW + 9.5, 6: NOW, -65538: inner}, {-65539: b"{}"}):
        assert isinstance(refused(maker().token(encode(payload))), MalformedTokenError)


def test_clock_rollback_does_not_revive_a_token_beyond_its_window() -> None:
    """Going back makes a token young again only within its own lifetime; before that it is early."""
    clock = Clock()
    here = box(clock=clock)
    token = here.seal("s", principal=None, request=None)
    clock.now = NOW + 601
    with pytest.raises(ExpiredTokenError):
        here.open(token, principal=None, request=None)
    clock.now = NOW - 61
    with pytest.raises(OpenError) as caught:
        here.open(token, principal=None, request=None)
    assert caught.value.code == "issued_in_future"

"""A key out of a JSON Web Key, and back into one."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import Key, KeyringError
from statebox.jwk import key_from_jwk
from statebox.keys import Revocation
from tests.samples import DAY, NOW, key, secret

K = base64.urlsafe_b64encode(secret("a jwk")).rstrip(b"=").decode()
JWK: dict[str, Any] = {"kty": "oct", "kid": "key-1", "alg": "A256GCM", "k": K}


def test_a_key_is_read_with_its_dates() -> None:
    revoked = {"revoked_at": NOW, "reason": "leaked"}
    read = key_from_jwk(JWK | {"iat": 1, "nbf": 2, "exp": 3, "revoked": revoked})
    assert read == Key(
        kid="key-1",
        alg="A256GCM",
        secret=secret("a jwk"),
        iat=1,
        nbf=2,
        exp=3,
        revoked=Revocation(NOW, "leaked"),
    )


KEYS = [
    key(),
    key("mac-1", "HS256", iat=NOW - DAY, exp=NOW + DAY),
    key("gone", revoked=Revocation(NOW)),
    key("gone", revoked=Revocation(NOW, "leaked in a log")),
    Key(kid="long", alg="HS256", secret=bytes(range(77))),
]


@pytest.mark.parametrize(
    "made", KEYS, ids=["plain", "dated", "revoked", "revoked with a reason", "long"]
)
def test_what_a_key_writes_reads_as_the_same_key(made: Key) -> None:
    written = json.loads(json.dumps(made.to_jwk()))
    assert key_from_jwk(written) == made
    assert key_from_jwk(written).to_jwk() == written


@given(size=st.integers(32, 100), data=st.data())
def test_any_secret_survives_the_way_to_json_and_back(size: int, data: st.DataObject) -> None:
    made = Key(kid="k", alg="HS256", secret=data.draw(st.binary(min_size=size, max_size=size)))
    assert key_from_jwk(json.loads(json.dumps(made.to_jwk()))) == made


def test_members_that_are_not_known_are_ignored_as_rfc_7517_asks() -> None:
    assert key_from_jwk(JWK | {"use": "enc", "key_ops": ["encrypt"], "x": 1}) == key_from_jwk(JWK)


def test_a_member_that_is_null_is_one_that_is_absent() -> None:
    null = dict.fromkeys(("iat", "nbf", "exp", "revoked"))
    assert key_from_jwk(JWK | null) == key_from_jwk(JWK)


@pytest.mark.parametrize("value", [None, [], "key", 5, [JWK], json.dumps(JWK)], ids=ascii)
def test_what_is_no_object_is_no_key(value: object) -> None:
    with pytest.raises(KeyringError, match="not a JSON object"):
        key_from_jwk(value)


@pytest.mark.parametrize("name", ["kid", "kty", "alg", "k"])
def test_no_member_that_matters_may_be_missing(name: str) -> None:
    with pytest.raises(KeyringError):
        key_from_jwk({member: value for member, value in JWK.items() if member != name})


@pytest.mark.parametrize("kty", ["RSA", "EC", "OKP", "Oct", "", None, ["oct"]], ids=repr)
def test_only_a_symmetric_key_is_read(kty: object) -> None:
    with pytest.raises(KeyringError, match="kty is not 'oct'"):
        key_from_jwk(JWK | {"kty": kty})


@pytest.mark.parametrize("alg", ["none", "dir", "A256KW", None, 3, ["A256GCM"]], ids=repr)
def test_only_the_two_algorithms_are_read(alg: object) -> None:
    with pytest.raises(KeyringError, match="algorithm is not one of"):
        key_from_jwk(JWK | {"alg": alg})


BITS_SET = K[:-1] + chr(ord(K[-1]) + 1)
BAD_K: dict[str, object] = {
    "padding": K + "=",
    "a plus for a minus": "+" + K[1:],
    "a slash for an underscore": "/" + K[1:],
    "a newline after it": K + "\n",
    "a newline in it": K[:9] + "\n" + K[9:],
    "a space": " " + K,
    "unused low bits set": BITS_SET,
    "a length that base64url does not have": K[:-2],
    "not ASCII": "é" + K[1:],
    "a lone surrogate": "\udcff" + K[1:],
    "empty": "",
    "null": None,
    "a number": 7,
    "bytes": K.encode(),
    "a list": [K],
}


@pytest.mark.parametrize("value", BAD_K.values(), ids=BAD_K.keys())
def test_a_secret_has_one_spelling_canonical_base64url(value: object) -> None:
    with pytest.raises(KeyringError, match="k is not base64url without padding"):
        key_from_jwk(JWK | {"k": value})


def test_the_last_character_of_the_sample_leaves_low_bits_unused() -> None:
    """Otherwise the case above would prove nothing."""
    assert len(K) % 4 == 3
    assert base64.urlsafe_b64decode(BITS_SET + "=") == secret("a jwk")


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(KeyringError, match="not at least 32 bytes"):
        key_from_jwk(JWK | {"k": "c2hvcnQ"})


@pytest.mark.parametrize("name", ["iat", "nbf", "exp"])
@pytest.mark.parametrize("value", ["1790000000", 1.5, 1e9, -1, True, [1], 1 << 40], ids=repr)
def test_a_date_is_a_whole_number_of_seconds(name: str, value: object) -> None:
    with pytest.raises(KeyringError, match=f"{name} is not a whole number"):
        key_from_jwk(JWK | {name: value})


BAD_REVOCATIONS: list[object] = [
    True,
    False,
    0,
    "",
    "2026",
    [],
    {},
    {"reason": "leaked"},
    {"revoked_at": None},
    {"revoked_at": "now"},
    {"revoked_at": 1.0},
    {"revoked_at": 5, "reason": 7},
]


@pytest.mark.parametrize("value", BAD_REVOCATIONS, ids=repr)
def test_a_revocation_that_cannot_be_read_is_an_error_and_never_no_revocation(
    value: object,
) -> None:
    with pytest.raises(KeyringError, match="revoked"):
        key_from_jwk(JWK | {"revoked": value})

"""A key: one secret, one algorithm, and dates that make sense."""

import copy
import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import Key, KeyringError
from statebox.keys import Revocation, require_kid
from tests.samples import DAY, NOW, key, secret
from tests.vectors import independent


def made(**members: object) -> Key:
    """Make a key of good members and of these, which may be of any type."""
    good = {"kid": "key-1", "alg": "A256GCM", "secret": bytes(range(32))}
    return Key(**cast("dict[str, Any]", good | members))


@pytest.mark.parametrize("kid", ["a", "7", "A.b_c-D", "x" * 32, "0..", "k_"])
def test_a_kid_has_1_to_32_of_the_allowed_characters(kid: str) -> None:
    assert made(kid=kid).kid == kid


@pytest.mark.parametrize(
    "kid",
    [
        "",
        "x" * 33,
        ".a",
        "-a",
        "_a",
        "a b",
        "a/b",
        "../a",
        "a\n",
        "\na",
        "kéy",
        "k\u0661",
        "a\0",
        "a:b",
    ],
    ids=ascii,
)
def test_no_other_text_is_a_kid(kid: str) -> None:
    with pytest.raises(KeyringError, match="no usable kid"):
        made(kid=kid)


@pytest.mark.parametrize("kid", [None, 7, b"key-1", ["key-1"], True], ids=repr)
def test_what_is_no_text_is_no_kid(kid: object) -> None:
    with pytest.raises(KeyringError, match="no usable kid"):
        require_kid(kid)


@given(kid=st.text(max_size=40))
def test_a_kid_is_allowed_exactly_if_the_format_page_says_so(kid: str) -> None:
    allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
    good = 1 <= len(kid) <= 32 and set(kid) <= set(allowed) and kid[0] not in "._-"
    try:
        require_kid(kid)
    except KeyringError:
        assert not good
    else:
        assert good


@pytest.mark.parametrize("alg", ["none", "", "a256gcm", "HS512", "A128GCM", None, 3], ids=repr)
def test_a_key_is_for_one_of_the_two_algorithms(alg: object) -> None:
    with pytest.raises(KeyringError, match="algorithm is not one of A256GCM, HS256"):
        made(alg=alg)


@pytest.mark.parametrize(
    "value",
    [b"", bytes(31), 32, "x" * 32, bytearray(32), None, [0] * 32],
    ids=lambda value: repr(value)[:12],
)
def test_a_secret_is_at_least_32_bytes_and_never_coerced(value: object) -> None:
    """bytes(32) of a number would be a secret of zeros; a bytearray could change afterwards."""
    with pytest.raises(KeyringError, match="not at least 32 bytes"):
        made(secret=value)


def test_a_longer_secret_is_used_whole() -> None:
    long = made(secret=bytes(range(64)))
    assert long.derive("A256GCM") != made().derive("A256GCM")
    assert long.derive("A256GCM") == independent.derive(bytes(range(64)), "A256GCM")


@pytest.mark.parametrize("name", ["iat", "nbf", "exp"])
@pytest.mark.parametrize("value", [-1, 1.0, True, "1790000000", 1 << 40, float("nan")], ids=repr)
def test_a_date_is_a_whole_number_of_seconds_below_2_to_the_40(name: str, value: object) -> None:
    with pytest.raises(KeyringError, match=f"{name} is not a whole number of seconds"):
        made(**{name: value})


def test_a_date_just_below_2_to_the_40_is_allowed() -> None:
    assert made(exp=(1 << 40) - 1).exp == (1 << 40) - 1


def test_a_key_seals_from_its_nbf_else_from_its_iat_else_from_1970() -> None:
    assert made(iat=5, nbf=9).nbf == 9
    assert made(iat=5).nbf == 5
    assert made().nbf == 0
    assert made(iat=5, nbf=0).nbf == 0


@pytest.mark.parametrize("exp", [NOW, NOW - 1])
def test_a_key_that_would_end_before_it_begins_is_refused(exp: int) -> None:
    with pytest.raises(KeyringError, match="is not after nbf"):
        made(nbf=NOW, exp=exp)
    assert made(nbf=NOW, exp=NOW + 1).exp == NOW + 1


@pytest.mark.parametrize(
    "value",
    [True, 5, {"revoked_at": 5}, *(Revocation(cast("int", at)) for at in (None, -1, 1.5, "5"))],
    ids=repr,
)
def test_a_revocation_has_its_time(value: object) -> None:
    """A key whose revocation is unreadable must not count as one that was never revoked."""
    with pytest.raises(KeyringError, match="revoked"):
        made(revoked=value)


def test_a_generated_key_is_fresh_and_starts_now() -> None:
    one, two = (Key.generate(now=NOW + 0.75) for _ in range(2))
    assert not one.same_secret(two)
    assert one.kid != two.kid
    assert re.fullmatch(r"[a-z2-9]{3}", one.kid)
    assert (one.alg, one.iat, one.nbf, one.exp, one.revoked) == ("A256GCM", NOW, NOW, None, None)


def test_a_generated_key_has_a_name_that_is_not_taken() -> None:
    class AllButOne:
        def __contains__(self, kid: object) -> bool:
            return not str(kid).startswith("k")

    assert Key.generate(taken=AllButOne()).kid[0] == "k"


def test_a_generated_key_takes_the_name_the_algorithm_and_the_start_it_is_given() -> None:
    one = Key.generate("HS256", kid="mac-1", now=NOW, nbf=NOW + DAY)
    assert (one.kid, one.alg, one.iat, one.nbf) == ("mac-1", "HS256", NOW, NOW + DAY)


@pytest.mark.parametrize("purpose", ["A256GCM", "HS256", "principal", "anything"])
def test_a_purpose_derives_what_the_format_page_says(purpose: str) -> None:
    assert key().derive(purpose) == independent.derive(secret("key-1 A256GCM"), purpose)


def test_no_two_purposes_share_bytes_with_each_other_or_with_the_secret() -> None:
    purposes = ("A256GCM", "HS256", "principal", "fingerprint")
    derived = {key().derive(purpose) for purpose in purposes}
    assert len(derived | {secret("key-1 A256GCM")}) == len(purposes) + 1


def test_a_copy_with_other_dates_keeps_everything_else() -> None:
    old = key(iat=5)
    new = old.replace(exp=NOW + DAY, revoked=Revocation(NOW, "leaked"))
    assert (new.kid, new.alg, new.iat, new.nbf) == (old.kid, old.alg, old.iat, old.nbf)
    assert (new.exp, new.revoked) == (NOW + DAY, Revocation(NOW, "leaked"))
    assert new.same_secret(old)
    assert new.replace(nbf=NOW).nbf == NOW


def test_a_copy_is_checked_like_a_new_key() -> None:
    with pytest.raises(KeyringError, match="is not after nbf"):
        key().replace(exp=1)


def test_keys_are_equal_if_all_of_them_is() -> None:
    assert key() == key()
    assert hash(key()) == hash(key())
    assert key() != key(nbf=5)
    assert key() != key("key-2")
    assert key() != Key(kid="key-1", alg="A256GCM", nbf=NOW - DAY, secret=secret("another"))
    assert key() != "key-1"


def test_a_fingerprint_tells_secrets_apart_whatever_their_names() -> None:
    twin = Key(kid="twin", alg="HS256", secret=secret("key-1 A256GCM"))
    assert twin.fingerprint == key().fingerprint
    assert twin.same_secret(key())
    assert key("key-2").fingerprint != key().fingerprint
    assert not key("key-2").same_secret(key())


@pytest.mark.parametrize("name", ["kid", "alg", "exp", "nbf", "revoked", "_secret", "new"])
def test_a_key_never_changes(name: str) -> None:
    one = key()
    with pytest.raises(AttributeError, match="immutable"):
        setattr(one, name, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(one, name)
    assert one == key()


def test_copying_a_key_gives_the_key_itself() -> None:
    one = key()
    assert copy.copy(one) is one
    assert copy.deepcopy([one])[0] is one

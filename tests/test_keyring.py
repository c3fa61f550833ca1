"""A ring of keys: distinct, in the order of their nbf, with roles that follow from the clock."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import Key, Keyring, KeyringError
from statebox.keys import Revocation
from tests.samples import DAY, NOW, key, ring, secret

OLD = key("old", nbf=NOW - 10)
NEW = key("new", nbf=NOW + 10)


def roles(keys: list[Key], now: float) -> dict[str, str]:
    made = Keyring(keys)
    return {item.kid: made.role(item, now) for item in made}


def test_a_key_whose_nbf_lies_ahead_is_pending_and_takes_over_in_that_second() -> None:
    assert roles([OLD, NEW], NOW + 9.999) == {"old": "active", "new": "pending"}
    assert roles([OLD, NEW], NOW + 10) == {"old": "verifying", "new": "active"}


def test_a_key_is_expired_from_its_exp_on() -> None:
    ending = key("old", nbf=NOW - 10, exp=NOW + 10)
    assert roles([ending], NOW + 9.999) == {"old": "active"}
    assert roles([ending], NOW + 10) == {"old": "expired"}


def test_a_revoked_key_is_revoked_whatever_its_dates() -> None:
    gone = Revocation(NOW + DAY)
    assert roles([key("old", nbf=1, exp=2, revoked=gone)], NOW) == {"old": "revoked"}
    assert roles([key("old", nbf=NOW + 5, revoked=gone)], NOW) == {"old": "revoked"}
    assert roles([key("old", nbf=NOW - 5, revoked=gone)], NOW) == {"old": "revoked"}


def test_the_active_key_is_the_latest_whose_nbf_has_passed() -> None:
    keys = [key(f"k{at}", nbf=NOW + at) for at in (-30, -20, -10, 10)]
    assert Keyring(keys).active(NOW).kid == "k-10"
    assert Keyring(reversed(keys)).active(NOW).kid == "k-10"
    assert Keyring(keys).active(NOW - 20).kid == "k-20"


@pytest.mark.parametrize(
    "newest",
    [key("new", nbf=NOW - 5, exp=NOW), key("new", nbf=NOW - 5, revoked=Revocation(NOW))],
    ids=["expired", "revoked"],
)
def test_where_the_latest_is_expired_or_revoked_the_one_before_it_is_active(newest: Key) -> None:
    assert Keyring([OLD, newest]).active(NOW).kid == "old"


@pytest.mark.parametrize(
    "keys",
    [[NEW], [key("x", exp=NOW)], [key("x", revoked=Revocation(1))]],
    ids=["pending", "expired", "revoked"],
)
def test_a_ring_without_an_active_key_says_so(keys: list[Key]) -> None:
    with pytest.raises(KeyringError, match="no active key now") as caught:
        Keyring(keys).active(NOW)
    assert "statebox keys rotate" in caught.value.hint


def test_a_clock_that_shows_no_number_makes_no_key_active() -> None:
    with pytest.raises(KeyringError, match="no active key"):
        Keyring([OLD, NEW]).active(float("nan"))


def test_a_role_changes_next_at_the_first_nbf_or_exp_after_now() -> None:
    made = Keyring([key("old", nbf=NOW - 10, exp=NOW + 30), NEW])
    assert made.next_change(NOW - 11) == NOW - 10
    assert made.next_change(NOW) == NOW + 10
    assert made.next_change(NOW + 10) == NOW + 30
    assert made.next_change(NOW + 30) == float("inf")


@given(
    starts=st.lists(st.integers(0, 30), min_size=1, max_size=5, unique=True),
    lives=st.lists(st.integers(1, 30) | st.none(), min_size=5, max_size=5),
    now=st.integers(0, 70),
)
def test_no_role_changes_between_now_and_the_next_change(
    starts: list[int], lives: list[int | None], now: int
) -> None:
    keys = [
        key(f"k{start}", nbf=start, exp=None if life is None else start + life)
        for start, life in zip(starts, lives, strict=False)
    ]
    change = min(Keyring(keys).next_change(now), 71.0)
    for moment in range(now, int(change)):
        assert roles(keys, moment) == roles(keys, now)
    assert sum(role == "active" for role in roles(keys, now).values()) <= 1


def test_a_ring_has_at_least_one_key() -> None:
    with pytest.raises(KeyringError, match="the keyring has no key") as caught:
        Keyring([])
    assert "statebox keys init" in caught.value.hint


@pytest.mark.parametrize("wrong", [None, 5, "key-1", {"kty": "oct"}], ids=ascii)
def test_a_ring_is_made_of_keys(wrong: object) -> None:
    with pytest.raises(TypeError, match="a Keyring takes Keys"):
        Keyring([key(), cast("Key", wrong)])


def test_two_keys_with_one_kid_are_refused() -> None:
    with pytest.raises(KeyringError, match="two keys have the kid key-1"):
        Keyring([key(nbf=1), key(alg="HS256", nbf=2)])


def test_two_keys_with_one_nbf_are_refused() -> None:
    with pytest.raises(KeyringError, match="keys key-1 and key-2 have one nbf, 5"):
        Keyring([key(nbf=5), key("key-2", nbf=5)])


@pytest.mark.parametrize("alg", ["A256GCM", "HS256"])
def test_two_keys_with_one_secret_are_refused(alg: str) -> None:
    """One secret under two algorithms is how algorithms get confused."""
    twin = Key(kid="twin", alg=alg, secret=secret("key-1 A256GCM"), nbf=5)
    with pytest.raises(KeyringError, match="keys twin and key-1 have one secret"):
        Keyring([key(), twin])


@pytest.mark.parametrize("max_ttl", [0, -1, 366 * DAY + 1, 3600.0, True, "3600", None], ids=repr)
def test_max_ttl_is_a_whole_number_of_seconds_up_to_a_year(max_ttl: object) -> None:
    with pytest.raises(KeyringError, match="max_ttl"):
        Keyring([key()], max_ttl=cast("int", max_ttl))
    with pytest.raises(KeyringError, match="max_ttl"):
        Keyring.from_jwks(ring().to_jwks() | {"max_ttl": max_ttl})


@pytest.mark.parametrize("max_ttl", [1, 366 * DAY])
def test_the_bounds_of_max_ttl_are_allowed(max_ttl: int) -> None:
    assert Keyring([key()], max_ttl=max_ttl).max_ttl == max_ttl


def test_a_generated_ring_seals_at_once() -> None:
    made = Keyring.generate("HS256", max_ttl=60, now=NOW)
    assert (len(made), made.max_ttl, made.active(NOW).alg) == (1, 60, "HS256")
    assert Keyring.generate().active(NOW * 2).alg == "A256GCM"
    with pytest.raises(KeyringError, match="algorithm"):
        Keyring.generate("none")


def test_a_ring_is_read_by_kid_by_iteration_and_by_length() -> None:
    made = Keyring([NEW, OLD])
    assert [item.kid for item in made] == ["old", "new"]
    assert len(made) == 2
    assert made.get("new") is NEW
    assert made.get("nope") is None


def test_rings_are_equal_if_their_keys_and_max_ttl_are() -> None:
    assert Keyring([OLD, NEW]) == Keyring([NEW, OLD])
    assert hash(Keyring([OLD, NEW])) == hash(Keyring([NEW, OLD]))
    assert Keyring([OLD]) != Keyring([OLD], max_ttl=60)
    assert Keyring([OLD]) != Keyring([OLD, NEW])
    assert Keyring([OLD]) != [OLD]


@pytest.mark.parametrize("name", ["max_ttl", "_keys", "_by_kid", "new"])
def test_a_ring_never_changes(name: str) -> None:
    made = ring()
    with pytest.raises(AttributeError, match="immutable"):
        setattr(made, name, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(made, name)
    assert made == ring()


def test_what_a_ring_writes_reads_as_the_same_ring() -> None:
    made = Keyring([key("old", exp=NOW + DAY, revoked=Revocation(NOW, "leaked")), NEW], max_ttl=90)
    assert Keyring.from_jwks(made.to_jwks()) == made
    assert Keyring.from_json(made.to_json()) == made
    assert Keyring.from_json(made.to_json().encode()).to_json() == made.to_json()


def test_a_ring_without_max_ttl_has_the_default_and_unknown_members_are_ignored() -> None:
    jwks = {"keys": ring().to_jwks()["keys"], "comment": "ours"}
    assert Keyring.from_jwks(jwks).max_ttl == 3600


@pytest.mark.parametrize("value", [None, [], "x", 5, [{"keys": []}]], ids=repr)
def test_what_is_no_object_is_no_ring(value: object) -> None:
    with pytest.raises(KeyringError, match="JSON object"):
        Keyring.from_jwks(value)


@pytest.mark.parametrize("keys", [None, {}, "x", 5], ids=repr)
def test_a_ring_has_a_list_of_keys(keys: object) -> None:
    with pytest.raises(KeyringError, match='no list of "keys"'):
        Keyring.from_jwks({"keys": keys})


BAD_JSON = {
    "empty": "",
    "text": "keyring",
    "cut off": ring().to_json()[:-5],
    "two documents": ring().to_json() * 2,
    "a member twice": '{"keys": [], "keys": []}',
    "a member of a key twice": '{"keys": [{"kid": "a", "kid": "b"}]}',
    "nested without end": "[" * 100_000,
    "not UTF-8": b"\xff\xfe{}\x00",
    "a number of 5,000 digits": '{"keys": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_what_is_not_json_is_refused_by_the_name_of_its_source(text: str | bytes) -> None:
    with pytest.raises(KeyringError, match=r"keyring\.json is not JSON"):
        Keyring.from_json(text, where="keyring.json")


def test_an_error_in_a_ring_names_its_source_and_keeps_its_hint() -> None:
    text = json.dumps({"keys": []})
    with pytest.raises(KeyringError, match=r"keyring\.json: the keyring has no key") as caught:
        Keyring.from_json(text, where="keyring.json")
    assert "statebox keys init" in caught.value.hint

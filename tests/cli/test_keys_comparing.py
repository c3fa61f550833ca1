"""`statebox keys diff`: who lacks what, and where one kid stands for two secrets."""

from pathlib import Path

import pytest

from statebox import Key, Keyring
from statebox.keys import Revocation
from statebox_cli.keys_comparing import differences
from tests.cli.keys_commands import Keys, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.samples import NOW, key, secret

ONE, TWO = key("one"), key("two", nbf=NOW - 60)


def named(kid: str, of: str) -> Key:
    return Key(kid=kid, alg="A256GCM", secret=secret(of))


@pytest.mark.parametrize(
    ("theirs", "kinds"),
    [
        ((ONE, TWO), []),
        ((ONE,), ["missing"]),
        ((ONE, TWO, key("three", nbf=NOW)), ["missing"]),
        ((named("one", "another"), TWO), ["secret", "dates"]),
        ((key("one", "HS256"), TWO), ["secret", "alg"]),
        ((ONE.replace(exp=NOW + 9), TWO), ["dates"]),
        ((ONE.replace(revoked=Revocation(NOW)), TWO), ["revoked"]),
    ],
)
def test_each_difference_has_its_kind(theirs: tuple[Key, ...], kinds: list[str]) -> None:
    found = differences({"a": Keyring([ONE, TWO]), "b": Keyring(theirs)})
    assert [difference.kind for difference in found] == kinds


def test_one_secret_under_two_names_is_found() -> None:
    rings = {"a": Keyring([named("one", "s")]), "b": Keyring([named("uno", "s")])}
    found = list(differences(rings))
    assert [difference.kind for difference in found] == ["missing", "missing", "kid"]
    assert found[-1].detail == "one secret is called one and uno"


def test_another_max_ttl_is_a_difference() -> None:
    rings = {"a": Keyring([ONE]), "b": Keyring([ONE], max_ttl=60)}
    assert [found.detail for found in differences(rings)] == ["max_ttl is 3600 s in a, 60 s in b"]


def test_equal_rings_are_the_same(keys: Keys, tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path / name, ONE, TWO)
    ran = keys("diff", *(tmp_path / name for name in "abc"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count(ONE.fingerprint) == 3
    assert "the rings are the same" in ran.out


def test_a_difference_is_exit_code_8_and_shows_no_secret(keys: Keys, tmp_path: Path) -> None:
    put(tmp_path / "a", ONE, TWO)
    put(tmp_path / "b", named("one", "another"))
    ran = keys("diff", tmp_path / "a", tmp_path / "b")
    assert ran.code == 8
    assert "one stands for more than one secret" in ran.out
    assert "lacks it" in ran.out
    assert "the rings differ: one stands for more than one secret" in ran.err
    assert ONE.to_jwk()["k"] not in ran.out
    said = keys("diff", tmp_path / "a", tmp_path / "b", "--json").json
    assert list(said) == ["rings", "differences", "error"]
    assert said["differences"][0] == {
        "kind": "secret",
        "kid": "one",
        "rings": [f"file:{tmp_path}/a", f"file:{tmp_path}/b"],
        "detail": "one stands for more than one secret",
    }
    assert said["rings"][0]["keys"][1] == {
        "kid": "two",
        "role": "active",
        "fingerprint": TWO.fingerprint,
    }


def test_a_ring_may_be_named_twice(keys: Keys, tmp_path: Path) -> None:
    put(tmp_path / "a", ONE)
    said = keys("diff", tmp_path / "a", tmp_path / "a", "--json").json
    assert [one["keyring"][-5:] for one in said["rings"]] == [f"{str(tmp_path)[-3:]}/a", "a (2)"]


def test_one_ring_is_no_comparison(keys: Keys, tmp_path: Path) -> None:
    assert keys("diff").code == 2
    assert keys("diff", tmp_path / "a").code == 2
    assert keys("diff", tmp_path / "a", tmp_path / "b").code == 8

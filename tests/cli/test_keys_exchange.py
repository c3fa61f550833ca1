"""`statebox keys export` and `import`: a JWK Set for, and from, other tools; PyJWT reads it."""

import json
import sys
from pathlib import Path
from typing import Any

import jwt
import pytest
from joserfc.jwk import OctKey

from statebox import Key, Keyring, KeyringError
from statebox_cli.keys_exchange import check_with_pyjwt
from tests.cli.keys_commands import Keys, kids, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import NOW, key, secret

K = key("x").to_jwk()["k"]


def jwk(**members: Any) -> dict[str, Any]:
    return {"kty": "oct", "kid": "theirs", "k": K, "alg": "A256GCM"} | members


def test_export_shows_no_secret_unless_told(keys: Keys, path: Path) -> None:
    put(path, key("one"), key("two", "HS256", nbf=NOW - 5))
    ran = keys("export")
    said = ran.json
    assert (ran.code, [one["kid"] for one in said["keys"]]) == (0, ["one", "two"])
    assert all("k" not in one for one in said["keys"])
    ran = keys("export", "--secrets")
    assert (ran.code, ran.err.splitlines()[1]) == (2, "hint: give --yes")  # nobody to ask
    assert keys("export", "--json").json["error"] is None


def test_what_export_gives_pyjwt_reads(keys: Keys, path: Path) -> None:
    put(path, key("one"), key("two", "HS256", nbf=NOW - 5))
    said = keys("export", "--secrets", "--yes").json
    assert Keyring.from_jwks(said) == Keyring.load(path)
    (signing,) = jwt.PyJWKSet.from_dict(said).keys  # it takes no A256GCM into a set
    assert signing.key == secret("two HS256")
    assert jwt.PyJWK(said["keys"][0], algorithm="HS256").key == secret("one A256GCM")


def test_what_export_gives_import_takes(keys: Keys, path: Path) -> None:
    put(path, key("one"), key("two", "HS256", nbf=NOW - 5), max_ttl=1800)
    exported = keys("export", "--secrets", "--yes").out
    other = path.parent / "other.json"
    assert keys("import", "-", "--keyring", other, stdin=exported).code == 0
    assert Keyring.load(other) == Keyring.load(path)


@pytest.mark.parametrize(
    ("members", "alg"),
    [
        ({}, "A256GCM"),
        ({"alg": "HS256"}, "HS256"),
        ({"alg": None, "use": "enc"}, "A256GCM"),
        ({"alg": None, "use": "sig"}, "HS256"),
        ({"alg": None, "key_ops": ["sign", "verify"]}, "HS256"),
        ({"alg": None, "key_ops": ["encrypt", "decrypt"]}, "A256GCM"),
        ({"alg": "HS256", "use": "sig", "key_ops": ["verify"], "x5t": "ignored"}, "HS256"),
    ],
)
def test_import_tells_the_algorithm_from_what_other_tools_write(
    keys: Keys, path: Path, members: dict[str, Any], alg: str
) -> None:
    assert keys("import", "-", stdin=json.dumps(jwk(**members))).code == 0
    assert Keyring.load(path).active(NOW).alg == alg


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"alg": None}, "key theirs says no algorithm"),
        ({"alg": "HS512"}, "key theirs is for another algorithm"),
        ({"alg": "dir"}, "key theirs is for another algorithm"),
        ({"alg": ["HS256"]}, "key theirs is for another algorithm"),
        ({"use": "sig"}, "key theirs is for A256GCM and for HS256"),
        ({"alg": "HS256", "key_ops": ["encrypt"]}, "key theirs is for A256GCM and for HS256"),
        ({"alg": None, "key_ops": ["wrapKey"]}, "key theirs is for something else"),
        ({"use": "wrap"}, "key theirs is for A256GCM and for something else"),
        ({"kty": "RSA"}, "key theirs: kty is not 'oct'"),
        ({"k": K[:40]}, "key theirs: the secret is not at least 32 bytes"),
        ({"k": K + "="}, "key theirs: k is not base64url"),
        ({"k": 5}, "key theirs: k is not base64url"),
        ({"kid": "https://a/b"}, "a key has no usable kid"),
        ({"exp": "soon"}, "key theirs: exp is not a whole number"),
    ],
)
def test_import_says_what_it_does_not_take_and_quotes_no_secret(
    keys: Keys, path: Path, members: dict[str, Any], message: str
) -> None:
    ran = keys("import", "-", stdin=json.dumps(jwk(**members)))
    assert ran.code in (2, 8)
    assert message in ran.err
    assert K[:40] not in ran.err
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"keys": []}', '{"keys": 5}', "{}"])
def test_import_refuses_what_holds_no_key(keys: Keys, text: str, path: Path) -> None:
    assert keys("import", "-", stdin=text).code == 8
    assert keys("import", path.parent / "missing").code == 2


def test_import_refuses_a_set_with_something_else_in_it(keys: Keys, path: Path) -> None:
    assert keys("import", "-", stdin='{"keys": [5]}').code == 8
    assert not path.exists()


def test_import_of_a_key_that_says_nothing_takes_the_option(keys: Keys, path: Path) -> None:
    text = json.dumps(jwk(alg=None))
    assert keys("import", "-", "--alg", "HS256", stdin=text).code == 0
    assert Keyring.load(path).active(NOW).alg == "HS256"
    ran = keys("import", "-", "--alg", "HS256", stdin=json.dumps(jwk()))
    assert (ran.code, "is for A256GCM and for HS256" in ran.err) == (8, True)


def test_import_takes_the_keys_that_joserfc_makes(keys: Keys, path: Path) -> None:
    made = OctKey.generate_key(256, parameters={"alg": "HS256", "use": "sig"})
    exported = json.dumps(made.as_dict(private=True))
    assert keys("import", "-", stdin=exported).code == 0
    assert Keyring.load(path).active(NOW).to_jwk()["k"] == made.as_dict(private=True)["k"]


def test_keys_without_dates_are_put_apart_and_do_not_take_over(keys: Keys, path: Path) -> None:
    put(path, key("zero", nbf=0), key("active"))
    others = [jwk(kid=f"k{number}", k=key(f"k{number}").to_jwk()["k"]) for number in range(3)]
    ran = keys("import", "-", stdin=json.dumps({"keys": others}))
    assert ran.code == 0
    assert ran.out.startswith("k0 is new, for A256GCM; opens, and does not seal\n")
    assert [(one.kid, one.nbf) for one in Keyring.load(path)][:4] == [
        ("zero", 0), ("k0", 1), ("k1", 2), ("k2", 3),
    ]  # fmt: skip
    assert Keyring.load(path).active(NOW).kid == "active"


def test_the_last_key_of_a_set_is_active_in_a_new_ring(keys: Keys, path: Path) -> None:
    others = [jwk(kid=f"k{number}", k=key(f"k{number}").to_jwk()["k"]) for number in range(3)]
    assert keys("import", "-", stdin=json.dumps({"keys": others})).code == 0
    assert (kids(path), Keyring.load(path).active(NOW).kid) == (["k0", "k1", "k2"], "k2")


def test_a_key_without_a_name_gets_one(keys: Keys, path: Path) -> None:
    assert keys("import", "-", stdin=json.dumps(jwk(kid=None))).code == 0
    assert Keyring.load(path).active(NOW).kid


def test_an_imported_key_takes_over_as_in_a_rotation(keys: Keys, path: Path) -> None:
    put(path, key("old"))
    ran = keys("import", "-", "--activate-in", "10m", stdin=json.dumps(jwk()))
    assert ran.code == 0
    old, new = Keyring.load(path)
    assert (old.exp, new.kid, new.nbf) == (NOW + 600 + 3660, "theirs", NOW + 600)


def test_an_imported_key_that_would_take_over_at_once_is_refused(keys: Keys, path: Path) -> None:
    before = put(path, key("old", nbf=NOW - 900))
    text = json.dumps(jwk(nbf=NOW - 60))
    ran = keys("import", "-", stdin=text)
    assert ran.code == 9
    assert "theirs would seal at once" in ran.err
    assert Keyring.load(path) == before
    assert keys("import", "-", "--force", stdin=text).code == 0
    assert Keyring.load(path).active(NOW).kid == "theirs"


def test_an_imported_key_that_would_take_over_soon_is_refused(keys: Keys, path: Path) -> None:
    before = put(path, key("old"))
    text = json.dumps(jwk(nbf=NOW + 599))
    ran = keys("import", "-", "--json", stdin=text)
    assert (ran.code, ran.json["rejects"], ran.json["written"]) == (9, [], False)
    assert "theirs would seal in 9 min 59 s" in ran.json["error"]["message"]
    assert Keyring.load(path) == before
    assert keys("import", "-", "--force", stdin=text).code == 0


def test_an_imported_key_that_takes_over_later_dates_the_one_before_it(
    keys: Keys, path: Path
) -> None:
    put(path, key("old"))
    others = [
        jwk(kid="second", nbf=NOW + 900, k=key("second").to_jwk()["k"]),
        jwk(kid="first", nbf=NOW + 600),
        jwk(kid="dead", nbf=NOW + 5, k=key("dead").to_jwk()["k"], revoked={"revoked_at": NOW}),
    ]
    assert keys("import", "-", stdin=json.dumps({"keys": others})).code == 0
    assert [(one.kid, one.exp) for one in Keyring.load(path)] == [
        ("old", NOW + 600 + 3660), ("dead", None), ("first", NOW + 900 + 3660), ("second", None),
    ]  # fmt: skip


def test_a_name_that_is_made_up_is_none_of_the_ring_and_none_of_the_set(
    keys: Keys, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []
    generate = Key.generate

    def noting(**options: Any) -> Key:
        asked.append(set(options["taken"]))
        return generate(**options)

    monkeypatch.setattr(Key, "generate", noting)
    put(path, key("old"))
    others = [jwk(kid=None), jwk(kid="later", k=key("later").to_jwk()["k"])]
    assert keys("import", "-", stdin=json.dumps({"keys": others})).code == 0
    assert [{"old", "later"} <= taken for taken in asked] == [True]


def test_a_key_that_is_there_already_is_refused(keys: Keys, path: Path) -> None:
    put(path, key("theirs"))
    assert keys("import", "-", stdin=json.dumps(jwk())).code == 8
    same = json.dumps(jwk(kid="other", k=key("theirs").to_jwk()["k"]))
    assert "have one secret" in keys("import", "-", stdin=same).err


def test_a_copy_is_not_restored_into_the_ring_that_is_there(keys: Keys, path: Path) -> None:
    before = put(path, key("one"), key("two", nbf=NOW - 5))
    copy = keys("export", "--secrets", "--yes").out
    for options in ([], ["--activate-in", "10m"]):
        ran = keys("import", "-", *options, "--json", stdin=copy)
        assert (ran.code, ran.json["written"], Keyring.load(path)) == (8, False, before)
        assert ran.json["error"]["message"] == "the ring has these keys already"
        assert "move the one that is there away first" in ran.json["error"]["hint"]
    put(path, key("two", nbf=NOW - 5))
    ran = keys("import", "-", stdin=copy)
    assert (ran.code, ran.err.splitlines()[0]) == (8, "statebox: the ring has two already")
    assert "take these out of the copy" in ran.err
    put(path, key("two", "HS256", nbf=NOW - 5))
    assert "two keys have the kid two" in keys("import", "-", stdin=copy).err


def test_import_shows_beforehand_and_writes_nothing_then(keys: Keys, path: Path) -> None:
    assert keys("import", "-", "--dry-run", stdin=json.dumps(jwk())).code == 0
    assert not path.exists()


@pytest.mark.parametrize("reads", [bytes(32), "text", None])
def test_a_key_that_pyjwt_reads_otherwise_is_refused(
    reads: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other:
        def __init__(self, _jwk: object, algorithm: str) -> None:
            assert algorithm == "HS256"
            if reads is None:
                raise jwt.InvalidKeyError
            self.key = reads

    monkeypatch.setattr(jwt, "PyJWK", Other)
    with pytest.raises(KeyringError, match="PyJWT does not read the same key"):
        check_with_pyjwt(jwk())


def test_without_the_extra_keys_still_leave_and_come_back_and_a_note_names_it(
    keys: Keys, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    put(path, key("one"))
    ran = keys("export", "--secrets", "--yes")
    assert ran.code == 0
    assert "pip install 'statebox[jwt]'" in ran.err
    copy = path.with_name("copy.json")
    copy.write_text(ran.out)
    path.unlink()
    back = keys("import", str(copy))
    assert back.code == 0
    assert "pip install 'statebox[jwt]'" in back.err
    assert next(iter(Keyring.load(path))).same_secret(key("one"))

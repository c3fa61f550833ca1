"""`statebox keys export` and `import`: keys as a JWK Set (RFC 7517), for and from other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, cast

import click

from statebox.errors import KeyringError
from statebox.jwk import key_from_jwk
from statebox.keyring import DEFAULT_MAX_TTL, Keyring
from statebox.keys import A256GCM, ALGORITHMS, HS256, Key, require_kid
from statebox_cli import inputs, options, output
from statebox_cli.keys_lifetimes import active
from statebox_cli.keys_making import alg_option
from statebox_cli.keys_options import BLANK, Write, writes
from statebox_cli.keys_store import store_of
from statebox_cli.keys_writing import create, require_consent, write
from statebox_cli.output import Command, RefusedError
from statebox_cli.rotation import free_start, placed
from statebox_cli.times import relative

_NOTICE: Final = 600  # seconds in which every replica reads the ring, as for a rotation

_USES: Final = {"sig": HS256, "enc": A256GCM}
_OPERATIONS: Final = {"sign": HS256, "verify": HS256, "encrypt": A256GCM, "decrypt": A256GCM}


@click.command(cls=Command, blank={"keys": [], "max_ttl": None})
@options.keyring_option(required=True)
@click.option("--secrets", is_flag=True, help="With the secrets, which then are out.")
@click.option("--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@options.json_option
def export(keyring: str, secrets: bool, yes: bool, as_json: bool) -> None:
    """Print a ring as a JWK Set, without secrets unless told.

    With them it is what `import` takes, here and in other tools; PyJWT has
    read each key before it is printed.
    """
    store = store_of(keyring)
    if secrets and not yes:
        require_consent(f"Print the secrets of {store.name}?", [], hint="Give --yes.")
    jwks = store.read().to_jwks()
    checked = secrets and pyjwt_is_here()
    for jwk in jwks["keys"]:
        if checked:
            check_with_pyjwt(jwk)
        if not secrets:
            del jwk["k"]
    output.emit(jwks, json.dumps(jwks, indent=2), as_json=as_json)


@click.command("import", cls=Command, blank=BLANK)
@click.argument("source", metavar="FILE")
@click.option(
    "--activate-in",
    type=options.duration,
    metavar="DURATION",
    help="Let the imported key take over after this time, as a rotation does.",
)
@alg_option
@writes
def import_keys(asked: Write, source: str, activate_in: int | None, alg: str | None) -> None:
    """Add the keys of a JWK or a JWK Set.

    FILE is what another tool made; - is stdin. Keys must be symmetric, of 32 bytes or more, for HS256 or A256GCM. They open
    at once; one without an nbf seals only with --activate-in, or if the ring is
    new; one whose nbf lies ahead takes over then. Where PyJWT is installed, it has read each key before it is written.
    """
    store = store_of(asked.keyring)
    there = store.exists()
    kids = {key.kid for key in store.read()} if there else set[str]()
    keys, max_ttl = _parsed(inputs.read_input(source), source, alg, kids)
    if not there:
        create(asked, Keyring(_begun(keys, taken=set()), max_ttl=max_ttl))
        return

    def plan(ring: Keyring) -> Keyring:
        _require_news(ring, keys)
        if activate_in is not None:
            for jwk in keys:
                nbf = free_start(ring, int(asked.now) + activate_in)
                ring = placed(ring, key_from_jwk({**jwk, "nbf": nbf}), asked.now)
            return ring
        return _joined(asked, ring, keys)

    write(asked, plan)


def _require_news(ring: Keyring, jwks: list[dict[str, Any]]) -> None:
    """Refuse keys that the ring has: they are a copy of it, put back while it is still there."""
    given = [key_from_jwk(jwk) for jwk in jwks]
    here = [key.kid for key in given if (own := ring.get(key.kid)) and own.same_secret(key)]
    if len(here) == len(given):
        raise KeyringError(
            "the ring has these keys already",
            hint="To restore a ring from its copy, move the one that is there away first.",
        )
    if here:
        raise KeyringError(
            f"the ring has {', '.join(here)} already",
            hint="To restore a ring from its copy, move the one that is there away first; "
            "to add the other keys, take these out of the copy.",
        )


def _joined(asked: Write, ring: Keyring, jwks: list[dict[str, Any]]) -> Keyring:
    """Add keys by their own dates; whoever one of them is going to take over from is dated."""
    # What has no date of its own goes before all others, where it does not take over.
    dated = [{**jwk, "nbf": 0 if jwk.get("nbf") is None else jwk["nbf"]} for jwk in jwks]
    begun = [jwk for jwk in dated if jwk["nbf"] <= asked.now]
    starts = {key.nbf for key in ring}
    after = Keyring([*ring, *_begun(begun, taken=starts)], max_ttl=ring.max_ttl)
    _require_no_takeover(asked, ring, after)
    coming = sorted((jwk for jwk in dated if jwk["nbf"] > asked.now), key=lambda jwk: jwk["nbf"])
    for jwk in coming:
        key = key_from_jwk({**jwk, "nbf": free_start(after, jwk["nbf"])})
        if key.revoked is not None:
            after = Keyring([*after, key], max_ttl=ring.max_ttl)
            continue
        if key.nbf < asked.now + _NOTICE and not asked.force:
            raise RefusedError(
                f"{key.kid} would seal {relative(key.nbf, asked.now)}, and no replica has it yet",
                hint="Give --activate-in 10m.",
            )
        after = placed(after, key, asked.now)
    return after


def pyjwt_is_here() -> bool:
    """Tell whether keys can be checked with PyJWT, and say so where not.

    A lost ring is put back on machines that have no extra: that is no reason to refuse.
    """
    if find_spec("jwt") is not None:
        return True
    output.note(
        "PyJWT is not installed, so statebox alone has checked the keys",
        "pip install 'statebox[jwt]' to have them checked by both",
    )
    return False


def check_with_pyjwt(jwk: Mapping[str, Any]) -> None:
    """Let PyJWT read a key, and compare what it found.

    Args:
        jwk: The key, with its secret.

    Raises:
        KeyringError: PyJWT reads another key.
    """
    import jwt

    ours = key_from_jwk(jwk)
    try:
        # PyJWT signs only, and knows no A256GCM; what it reads of the key is the same for both.
        secret: object = jwt.PyJWK(dict(jwk), algorithm="HS256").key
    except jwt.PyJWTError:
        secret = None
    if not isinstance(secret, bytes) or not ours.same_secret(_with_secret(ours, secret)):
        raise KeyringError(f"key {ours.kid}: PyJWT does not read the same key in it")


def _with_secret(key: Key, secret: bytes) -> Key:
    return Key(kid=key.kid, alg=key.alg, secret=secret)


def _parsed(
    data: bytes, name: str, alg: str | None, kids: set[str]
) -> tuple[list[dict[str, Any]], int]:
    """Read one JWK or a JWK Set into members that statebox takes, and the set's max_ttl."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        # `from None`: the decoder's error carries the whole document.
        raise KeyringError(f"{name} is not JSON", hint="Give a JWK, or a JWK Set.") from None
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    items: object = members.get("keys", [members] if "kty" in members else None)
    if not isinstance(items, list) or not items:
        raise KeyringError(f"{name} holds no key", hint='Give a JWK, or {"keys": [JWK, ...]}.')
    keys: list[dict[str, Any]] = []
    checked = pyjwt_is_here()
    # A kid that is made up is none of the ring's, and none of the set's.
    taken = kids | {str(kid) for kid in map(_kid_of, cast("list[object]", items))}
    for item in cast("list[object]", items):
        jwk = _adapted(item, alg, taken)
        taken.add(jwk["kid"])
        key_from_jwk(jwk)
        if checked:
            check_with_pyjwt(jwk)
        keys.append(jwk)
    return keys, members.get("max_ttl", DEFAULT_MAX_TTL)


def _kid_of(item: object) -> object:
    return cast("dict[str, object]", item).get("kid") if isinstance(item, dict) else None


def _adapted(item: object, alg: str | None, taken: set[str]) -> dict[str, Any]:
    """Fill in what other tools leave out: the kid, and the algorithm where it can be told."""
    if not isinstance(item, dict):
        raise KeyringError("a key of the set is not a JSON object")
    jwk = dict(cast("dict[str, Any]", item))
    if jwk.get("kid") is None:
        jwk["kid"] = Key.generate(taken=taken).kid
    kid = require_kid(jwk["kid"])
    if jwk.get("kty") != "oct":
        raise KeyringError(
            f"key {kid}: kty is not 'oct'", hint="Only symmetric keys can seal; leave it out."
        )
    alg_of_key = jwk.get("alg")
    if alg_of_key is not None and alg_of_key not in ALGORITHMS:
        raise KeyringError(
            f"key {kid} is for another algorithm than {' or '.join(ALGORITHMS)}",
            hint="A secret belongs to one algorithm: make a new one with `statebox keys rotate`.",
        )
    said = sorted(_implied(jwk) | {one for one in (alg_of_key, alg) if one is not None})
    if len(said) != 1 or said[0] not in ALGORITHMS:
        what = f"is for {' and for '.join(said)}" if said else "says no algorithm"
        raise KeyringError(f"key {kid} {what}", hint="Give --alg A256GCM or --alg HS256.")
    return {**jwk, "alg": said[0]}


def _implied(jwk: Mapping[str, Any]) -> set[str]:
    """Tell what `use` and `key_ops` (RFC 7517 §4.2, §4.3) say of the algorithm."""
    operations: object = jwk.get("key_ops")
    listed = cast("list[object]", operations) if isinstance(operations, list) else []
    named = [_USES.get(str(jwk["use"]))] if "use" in jwk else []
    named += [_OPERATIONS.get(str(operation)) for operation in listed]
    # What is neither for signing nor for encrypting data, as wrapKey, agrees with nothing.
    return {found or "something else" for found in named}


def _begun(keys: list[dict[str, Any]], taken: set[int]) -> list[Key]:
    """Make the keys, each with an nbf of its own."""
    made: list[Key] = []
    for jwk in keys:
        key = key_from_jwk(jwk)
        nbf = key.nbf
        while nbf in taken:
            nbf += 1
        taken.add(nbf)
        made.append(key if nbf == key.nbf else key.replace(nbf=nbf))
    return made


def _require_no_takeover(asked: Write, before: Keyring, after: Keyring) -> None:
    old, new = active(before, asked.now), active(after, asked.now)
    if old is not None and new is not None and old.kid != new.kid and not asked.force:
        raise RefusedError(
            f"{new.kid} would seal at once, and no replica has it yet",
            hint="Give --activate-in 10m.",
        )

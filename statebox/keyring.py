"""An immutable set of keys, and the role of each at a time.

A role is never stored. Every replica derives it from the dates in the ring and its own clock, so
one change of one file is a whole rotation:

* *pending*: nbf lies ahead. Opens already, does not seal yet.
* *active*: the latest nbf that has passed. Seals and opens.
* *verifying*: an earlier one, before its exp. Opens only.
* *expired*, *revoked*: opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NoReturn, Self, cast, final

from statebox.errors import KeyringError, leaving_no_frames
from statebox.keys import A256GCM, Key

Role = Literal["pending", "active", "verifying", "expired", "revoked"]

DEFAULT_MAX_TTL: Final = 3600  # seconds
_MAX_TTL_LIMIT: Final = 366 * 86400


@final
class Keyring:
    """Keys by kid, in the order of their nbf; immutable and safe to share between threads.

    Args:
        keys: The keys, in any order; at least one.
        max_ttl: The longest lifetime of a token under this ring, in seconds. A rotation keeps an
            old key for that long.

    Raises:
        KeyringError: No key; two keys with one kid, one nbf or one secret; an impossible max_ttl.
    """

    __slots__ = ("_by_kid", "_keys", "max_ttl")

    max_ttl: int
    _keys: tuple[Key, ...]
    _by_kid: dict[str, Key]

    def __init__(self, keys: Iterable[Key], *, max_ttl: int = DEFAULT_MAX_TTL) -> None:
        given = tuple(keys)
        if not all(isinstance(cast("object", key), Key) for key in given):
            raise TypeError("a Keyring takes Keys; for JSON there are from_json and from_jwks")
        ordered = tuple(sorted(given, key=lambda key: key.nbf))
        if not ordered:
            raise KeyringError("the keyring has no key", hint="Run `statebox keys init`.")
        if type(max_ttl) is not int or not 0 < max_ttl <= _MAX_TTL_LIMIT:
            raise KeyringError(
                "max_ttl is not a whole number of seconds between 1 and a year",
                hint='Write "max_ttl": 3600 beside "keys".',
            )
        _require_distinct(ordered)
        put = object.__setattr__
        put(self, "max_ttl", max_ttl)
        put(self, "_keys", ordered)
        put(self, "_by_kid", {key.kid: key for key in ordered})

    @classmethod
    def generate(
        cls, alg: str = A256GCM, *, max_ttl: int = DEFAULT_MAX_TTL, now: float | None = None
    ) -> Self:
        """Make a ring of one fresh key that is active at once.

        Args:
            alg: `"A256GCM"` (encrypted, the default) or `"HS256"` (signed, readable).
            max_ttl: The longest lifetime of a token, in seconds.
            now: Seconds since 1970; default: the system clock.

        Returns:
            The ring. It lives in this process only until it is written somewhere.

        Raises:
            KeyringError: The algorithm or max_ttl is not of the allowed form.
        """
        return cls([Key.generate(alg, now=now)], max_ttl=max_ttl)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a keyring file once. For one that is watched, see `Statebox.from_source`.

        Args:
            path: A JWK Set file that only its owner may read or write.

        Returns:
            The ring.

        Raises:
            KeyringError: The file is missing, open to others, or not a keyring. The message
                names the file, the hint the command that mends it.
        """
        from statebox.files import read_private

        return cls.from_json(read_private(path), where=str(path))

    @classmethod
    @leaving_no_frames
    def from_json(cls, text: str | bytes, *, where: str = "the keyring") -> Self:
        """Read a ring from the JSON of a JWK Set (RFC 7517 §5).

        Args:
            text: The JSON.
            where: What error messages call it: a path, a variable.

        Returns:
            The ring.

        Raises:
            KeyringError: It is not JSON or not a ring. Nothing of the text is quoted.
        """
        import json

        try:
            value: object = json.loads(text, object_pairs_hook=_without_duplicates)
        except (ValueError, RecursionError):
            # The decoder's error holds the whole document; leaving_no_frames lets go of it.
            raise KeyringError(
                f"{where} is not JSON",
                hint="A keyring is a JWK Set, as `statebox keys init` writes it.",
            ) from None
        try:
            return cls.from_jwks(value)
        except KeyringError as error:
            raise KeyringError(f"{where}: {error.message}", hint=error.hint) from None

    @classmethod
    @leaving_no_frames
    def from_jwks(cls, jwks: object) -> Self:
        """Read a ring from a JWK Set (RFC 7517 §5) with an optional `max_ttl` beside its keys.

        Args:
            jwks: The parsed set: `{"keys": [...], "max_ttl": seconds}`. Other members are ignored.

        Returns:
            The ring.

        Raises:
            KeyringError: It is not of this form, or the keys are no ring.
        """
        from statebox.jwk import key_from_jwk

        if not isinstance(jwks, Mapping):
            raise KeyringError("a keyring is a JSON object with a list of keys")
        members = cast("Mapping[object, object]", jwks)
        keys = members.get("keys")
        if not isinstance(keys, list):
            raise KeyringError('the keyring has no list of "keys"')
        max_ttl = members.get("max_ttl", DEFAULT_MAX_TTL)
        parsed = [key_from_jwk(item) for item in cast("list[object]", keys)]
        return cls(parsed, max_ttl=cast("int", max_ttl))

    def to_jwks(self) -> dict[str, Any]:
        """Write the ring as a JWK Set (RFC 7517 §5). The result holds every secret.

        Returns:
            A new map, ready for `json.dumps`. (Any: the members are of several types.)
        """
        return {"keys": [key.to_jwk() for key in self._keys], "max_ttl": self.max_ttl}

    def to_json(self) -> str:
        """Write the ring as the text of a keyring file. The result holds every secret."""
        import json

        return json.dumps(self.to_jwks(), indent=2) + "\n"

    def active(self, now: float) -> Key:
        """Find the key that seals at a time.

        Args:
            now: Seconds since 1970.

        Returns:
            Of the keys whose nbf has passed and that are neither revoked nor expired, the latest.

        Raises:
            KeyringError: There is none.
        """
        key = self._active(now)
        if key is None:
            raise KeyringError(
                "the keyring has no active key now",
                hint="Run `statebox keys list` to see the dates, `statebox keys rotate` to add one.",
            )
        return key

    def get(self, kid: str) -> Key | None:
        """Find a key by its kid; None if the ring has no such key."""
        return self._by_kid.get(kid)

    def role(self, key: Key, now: float) -> Role:
        """Tell what a key of this ring may do at a time.

        Args:
            key: A key of this ring.
            now: Seconds since 1970.

        Returns:
            `"revoked"`, `"expired"`, `"pending"`, `"active"` or `"verifying"`.
        """
        if key.revoked is not None:
            return "revoked"
        if key.exp is not None and key.exp <= now:
            return "expired"
        if key.nbf > now:
            return "pending"
        return "active" if key is self._active(now) else "verifying"

    def next_change(self, now: float) -> float:
        """Tell when a role changes next: the first nbf or exp after now, else infinity."""
        dates = [key.nbf for key in self._keys] + [key.exp for key in self._keys if key.exp]
        return min((date for date in dates if date > now), default=float("inf"))

    def _active(self, now: float) -> Key | None:
        for key in reversed(self._keys):
            if key.nbf <= now and key.revoked is None and (key.exp is None or now < key.exp):
                return key
        return None

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Keyring):
            return NotImplemented
        return self.max_ttl == other.max_ttl and self._keys == other._keys

    def __hash__(self) -> int:
        return hash((self.max_ttl, self._keys))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Keyring is immutable; build another one to change {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Keyring is immutable; {name} stays")

    def __repr__(self) -> str:
        if not hasattr(self, "_by_kid"):
            return "<Keyring, not made>"  # as a debugger sees it when __init__ has raised
        return f"<Keyring of {len(self._keys)}: {', '.join(key.kid for key in self._keys)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Keyring is not pickled or copied: that would write its secrets somewhere"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def _require_distinct(keys: tuple[Key, ...]) -> None:
    kids: dict[str, Key] = {}
    starts: dict[int, Key] = {}
    for key in keys:
        if key.kid in kids:
            raise KeyringError(f"two keys have the kid {key.kid}", hint="Give one another kid.")
        if key.nbf in starts:
            raise KeyringError(
                f"keys {starts[key.nbf].kid} and {key.kid} have one nbf, {key.nbf}",
                hint="Keys take over in the order of their nbf; put one a second later.",
            )
        kids[key.kid] = starts[key.nbf] = key
    # Fingerprints, not secrets, are sorted and compared.
    seen: dict[str, Key] = {}
    for key in keys:
        twin = seen.setdefault(key.fingerprint, key)
        if twin is not key:
            raise KeyringError(
                f"keys {twin.kid} and {key.kid} have one secret",
                hint="Take one out: a secret belongs to one kid and one algorithm.",
            )


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members

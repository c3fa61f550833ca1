"""One secret, one algorithm, and what is derived from it.

A `Key` is immutable. Its secret is asked for by name (`to_jwk`) and shows nowhere else: not in
`repr`, not in a pickle, not in a traceback.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Container
from typing import Any, Final, NamedTuple, NoReturn, Self, final

import cbor2

from statebox.errors import KeyringError, leaving_no_frames

A256GCM: Final = "A256GCM"
HS256: Final = "HS256"
ALGORITHMS: Final = (A256GCM, HS256)
MIN_SECRET_BYTES: Final = 32
TIME_LIMIT: Final = 1 << 40  # seconds; format.md §4 keeps every time below it

_KID_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"  # 32, and none is taken for another
_KID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)


class Revocation(NamedTuple):
    """When and why a key was revoked (OpenID Federation's `revoked` member of a JWK).

    Attributes:
        revoked_at: Seconds since 1970.
        reason: Free text for the operator, or None.
    """

    revoked_at: int
    reason: str | None = None


@final
class Key:
    """A secret for exactly one algorithm, with the dates between which it is used.

    Args:
        kid: 1 to 32 characters of `A-Z a-z 0-9 . _ -`, the first a letter or a digit.
        alg: `"A256GCM"` (encrypted tokens) or `"HS256"` (signed, readable by the client).
        secret: At least 32 bytes of secret randomness.
        iat: When the key was made, in seconds since 1970, or None.
        nbf: From when the key may seal, in seconds since 1970; default: iat, else 0.
        exp: From when the key opens nothing any more, in seconds since 1970; None: never.
        revoked: Set when the key was revoked; it then opens nothing.

    Raises:
        KeyringError: An argument is not of this form.
    """

    __slots__ = ("_secret", "alg", "exp", "iat", "kid", "nbf", "revoked")

    kid: str
    alg: str
    iat: int | None
    nbf: int
    exp: int | None
    revoked: Revocation | None
    _secret: bytes

    # INVARIANT: a secret is in no frame of an error, here and wherever `leaving_no_frames` stands.
    @leaving_no_frames
    def __init__(
        self,
        *,
        kid: str,
        alg: str,
        secret: bytes,
        iat: int | None = None,
        nbf: int | None = None,
        exp: int | None = None,
        revoked: Revocation | None = None,
    ) -> None:
        require_kid(kid)
        if alg not in ALGORITHMS:
            raise KeyringError(
                f"key {kid}: the algorithm is not one of {', '.join(ALGORITHMS)}",
                hint="Write A256GCM for encrypted tokens, HS256 for signed ones.",
            )
        _require_secret(kid, secret)
        require_time(kid, "iat", iat)
        require_time(kid, "nbf", nbf)
        require_time(kid, "exp", exp)
        if revoked is not None:
            _require_revocation(kid, revoked)
        start = nbf if nbf is not None else iat if iat is not None else 0
        if exp is not None and exp <= start:
            raise KeyringError(
                f"key {kid}: exp {exp} is not after nbf {start}",
                hint="A key opens tokens from its nbf to its exp; put exp later.",
            )
        put = object.__setattr__
        put(self, "kid", kid)
        put(self, "alg", alg)
        put(self, "_secret", secret)
        put(self, "iat", iat)
        put(self, "nbf", start)
        put(self, "exp", exp)
        put(self, "revoked", revoked)

    @classmethod
    def generate(
        cls,
        alg: str = A256GCM,
        *,
        kid: str | None = None,
        now: float | None = None,
        nbf: int | None = None,
        taken: Container[str] = (),
    ) -> Self:
        """Make a key with a fresh random secret of 32 bytes.

        Args:
            alg: `"A256GCM"` or `"HS256"`.
            kid: The key's name; default: three random letters and digits, as `k7q`. It stands in
                every token, so it is short, and a name that is used anew would mislead.
            now: Seconds since 1970; default: the system clock.
            nbf: From when it may seal, in seconds since 1970; default: now.
            taken: Names that the default must not be: the kids of the ring it is for.

        Returns:
            The key. Its iat is now.

        Raises:
            KeyringError: The kid or the algorithm is not of the allowed form.
        """
        moment = int(time.time() if now is None else now)
        if kid is None:
            kid = _fresh_kid()
            while kid in taken:
                kid = _fresh_kid()
        return cls(
            kid=kid,
            alg=alg,
            secret=os.urandom(MIN_SECRET_BYTES),
            iat=moment,
            nbf=moment if nbf is None else nbf,
        )

    def to_jwk(self) -> dict[str, Any]:
        """Write the key as a JSON Web Key (RFC 7517). The result holds the secret.

        Returns:
            A new map, ready for `json.dumps`. (Any: the members are of several types.)
        """
        import base64

        jwk: dict[str, Any] = {
            "kty": "oct",
            "kid": self.kid,
            "alg": self.alg,
            "k": base64.urlsafe_b64encode(self._secret).rstrip(b"=").decode("ascii"),
        }
        if self.iat is not None:
            jwk["iat"] = self.iat
        jwk["nbf"] = self.nbf
        if self.exp is not None:
            jwk["exp"] = self.exp
        if self.revoked is not None:
            reason = self.revoked.reason
            jwk["revoked"] = {"revoked_at": self.revoked.revoked_at} | (
                {} if reason is None else {"reason": reason}
            )
        return jwk

    def replace(
        self,
        *,
        nbf: int | None = None,
        exp: int | None = None,
        revoked: Revocation | None = None,
    ) -> Key:
        """Make a copy with other dates; what is not given stays as it is.

        Args:
            nbf: From when the copy may seal, in seconds since 1970.
            exp: From when the copy opens nothing, in seconds since 1970.
            revoked: When and why it was revoked.

        Returns:
            A new key with the same secret.

        Raises:
            KeyringError: The dates contradict each other.
        """
        return Key(
            kid=self.kid,
            alg=self.alg,
            secret=self._secret,
            iat=self.iat,
            nbf=self.nbf if nbf is None else nbf,
            exp=self.exp if exp is None else exp,
            revoked=self.revoked if revoked is None else revoked,
        )

    def derive(self, purpose: str) -> bytes:
        """Derive the 32 bytes that one purpose uses; the secret itself never touches data.

        Args:
            purpose: `"A256GCM"`, `"HS256"` or `"principal"` (format, section 3).

        Returns:
            HKDF-SHA256 of the secret (RFC 5869), with the purpose as its info.
        """
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = cbor2.dumps(["statebox", 1, purpose])
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._secret)

    @property
    def fingerprint(self) -> str:
        """16 hex digits that tell secrets apart and give nothing of them away."""
        return self.derive("fingerprint")[:8].hex()

    def same_secret(self, other: Key) -> bool:
        """Tell whether two keys hold one secret, in constant time."""
        return hmac.compare_digest(
            hashlib.sha256(self._secret).digest(), hashlib.sha256(other._secret).digest()
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return self._dates() == other._dates() and self.same_secret(other)

    def __hash__(self) -> int:
        return hash(self._dates())

    def _dates(self) -> tuple[object, ...]:
        return (self.kid, self.alg, self.iat, self.nbf, self.exp, self.revoked)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Key is immutable; use replace() to get another {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Key is immutable; {name} stays")

    # INVARIANT: a secret leaves a key through to_jwk() only.
    def __repr__(self) -> str:
        if not hasattr(self, "revoked"):
            return "<Key, not made>"  # as a debugger sees it when __init__ has raised
        return f"<Key {self.kid} {self.alg} fingerprint={self.fingerprint}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Key is not pickled or copied: that would write its secret somewhere")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def _fresh_kid() -> str:
    return "".join(_KID_LETTERS[byte % len(_KID_LETTERS)] for byte in os.urandom(3))


def require_kid(kid: object) -> str:
    """Check a kid (format, section 2).

    Raises:
        KeyringError: It is not 1 to 32 of the allowed characters.
    """
    if not isinstance(kid, str) or _KID.fullmatch(kid) is None:
        raise KeyringError(
            "a key has no usable kid",
            hint="A kid is 1 to 32 characters of A-Z a-z 0-9 . _ - and begins with a letter or digit.",
        )
    return kid


def _require_secret(kid: str, secret: object) -> None:
    # Never coerced: bytes(32) of an int would silently be an all-zero secret.
    if not isinstance(secret, bytes) or len(secret) < MIN_SECRET_BYTES:
        raise KeyringError(
            f"key {kid}: the secret is not at least {MIN_SECRET_BYTES} bytes",
            hint="Let `statebox keys rotate` make the secret, or take 32 bytes from a CSPRNG.",
        )


def _require_revocation(kid: str, value: object) -> None:
    at = value.revoked_at if isinstance(value, Revocation) else None
    if require_time(kid, "revoked_at", at) is None:
        raise KeyringError(
            f"key {kid}: revoked is not a Revocation with its time",
            hint="Write Revocation(revoked_at, reason), the time in whole seconds since 1970.",
        )


def require_time(kid: str, name: str, value: object) -> int | None:
    """Check a time of a key: whole seconds since 1970 below 2^40, or None.

    Raises:
        KeyringError: It is not.
    """
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < TIME_LIMIT:
        raise KeyringError(
            f"key {kid}: {name} is not a whole number of seconds since 1970",
            hint="Write times as whole seconds since 1970, or leave the member out.",
        )
    return value

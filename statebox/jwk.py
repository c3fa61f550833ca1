"""A key out of a JSON Web Key (RFC 7517; RFC 7518 §6.4). The way back is `Key.to_jwk`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from statebox.errors import KeyringError, leaving_no_frames
from statebox.keys import Key, Revocation, require_kid, require_time


@leaving_no_frames
def key_from_jwk(jwk: object) -> Key:
    """Read a symmetric key.

    Args:
        jwk: A map with `kty` "oct", `kid`, `alg`, `k` and, where set, `iat nbf exp revoked`.
            Members that are not known are ignored, as RFC 7517 §4 asks.

    Returns:
        The key.

    Raises:
        KeyringError: A member is missing or of the wrong form. No value is quoted.
    """
    if not isinstance(jwk, Mapping):
        raise KeyringError("a key of the set is not a JSON object")
    members = cast("Mapping[object, object]", jwk)
    kid = require_kid(members.get("kid"))
    if members.get("kty") != "oct":
        raise KeyringError(
            f"key {kid}: kty is not 'oct'",
            hint="statebox seals with symmetric secrets; `statebox keys rotate` makes one.",
        )
    alg = members.get("alg")
    return Key(
        kid=kid,
        alg=alg if isinstance(alg, str) else "",
        secret=_secret(kid, members.get("k")),
        iat=require_time(kid, "iat", members.get("iat")),
        nbf=require_time(kid, "nbf", members.get("nbf")),
        exp=require_time(kid, "exp", members.get("exp")),
        revoked=_revocation(kid, members.get("revoked")),
    )


def _secret(kid: str, text: object) -> bytes:
    secret = b""
    if isinstance(text, str):
        # The decoder's error holds the secret: it is over before ours is raised, and no context of it.
        with suppress(ValueError):
            secret = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    # RFC 7515 §2: base64url, no padding; anything else is another text for the same bytes.
    if not secret or base64.urlsafe_b64encode(secret).rstrip(b"=").decode("ascii") != text:
        raise KeyringError(
            f"key {kid}: k is not base64url without padding",
            hint="Copy the member whole, as RFC 7518 §6.4 writes it.",
        )
    return secret


def _revocation(kid: str, value: object) -> Revocation | None:
    if value is None:
        return None
    members: Mapping[object, object] = {}
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
    at = require_time(kid, "revoked_at", members.get("revoked_at"))
    reason = members.get("reason")
    if at is None or not (reason is None or isinstance(reason, str)):
        raise KeyringError(
            f'key {kid}: revoked is not {{"revoked_at": seconds, "reason": text}}',
            hint="Use `statebox keys revoke KID --reason TEXT`.",
        )
    return Revocation(at, reason)

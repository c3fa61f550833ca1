"""Other SDKs' tokens, judged under the key that their server has (`--sdk-key-file`).

The formats are those of the SDKs' own sources: python-sdk `server/request_state.py`, ruby-sdk
`server/request_state_security.rb`, typescript-sdk `server/requestStateCodec.ts`, rust-sdk
`model/request_state.rs`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from statebox_cli import comparing, foreign, sdk_claims
from statebox_cli.foreign import Foreign
from statebox_cli.judging import Check, Context, Verdict, skipped_after

_OTHER_KEY: Final = "Give the key of the server that sealed it; under that one it was changed."
_PREFIX: Final = b"v1."
_KDF_INFO: Final = b"mcp/request-state/v1/aes-256-gcm"
_KID_INFO: Final = b"mcp/request-state/v1/kid:"
_RMCP_DOMAIN: Final = b"rmcp/mrtr/request-state/v"


def judge(token: Foreign, keys: Sequence[bytes], context: Context) -> Verdict:
    """Judge a token of a format that `foreign.READABLE` names, under the keys of its server.

    Args:
        token: The token.
        keys: What the files of --sdk-key-file hold. Each is tried as text, as hex and as base64,
            as servers read it from their settings.
        context: What to check against.

    Returns:
        The checks that this SDK makes, in its order.
    """
    checks = [
        Check("text_form", "pass", token.name),
        Check("frame", "pass", ", ".join(f"{name} {size}" for name, size in token.parts.items())),
    ]
    secrets = [secret for key in keys for secret in _readings(key)]
    if token.format == foreign.PYTHON_SDK:
        return _judge_python(token, secrets, checks, context)
    if not any(_signed(token, secret) for secret in secrets):
        detail = "no key given matches the tag"
        if token.format != foreign.TYPESCRIPT_SDK:
            detail += "; a token sealed with associated data matches only on its server"
        checks.append(Check("authentication", "fail", detail, "authentication", _OTHER_KEY))
        return Verdict(checks=skipped_after(checks, "nothing of it is authentic"))
    checks += [
        Check("authentication", "pass", "the tag matches"),
        _expiry(token, context),
        _binding(token),
    ]
    return Verdict(
        checks=skipped_after(checks, "this SDK has no such check"),
        claims=token.claims,
        state=token.state,
        has_state=token.has_state,
    )


def _readings(content: bytes) -> Iterator[bytes]:
    text = content.strip()
    yield text
    if content != text:
        yield content
    word = text.decode("latin-1")
    if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", word):
        yield bytes.fromhex(word)
    decoded = foreign.decode(word.replace("+", "-").replace("/", "_"))
    if decoded is not None:
        yield decoded


def _judge_python(
    token: Foreign, secrets: list[bytes], checks: list[Check], context: Context
) -> Verdict:
    sealed = token.message
    for secret in secrets:
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=_KDF_INFO).derive(secret)
        kid = hashlib.sha256(_KID_INFO + key).digest()[:4]
        if kid == sealed[:4]:
            checks.append(Check("key", "pass", f"kid {kid.hex()}, by its fingerprint"))
            return _open_python(sealed, key, kid, checks, context)
        if len(secret) == 32 and (opened := _decrypt(secret, sealed, b"")) is not None:
            return _judge_ruby(opened, checks, context)
    detail = f"the token names kid {token.kid}; no key given has that fingerprint"
    checks.append(Check("key", "fail", detail, "unknown_key", _OTHER_KEY))
    return Verdict(checks=skipped_after(checks, "there is no key to check with"))


def _open_python(
    sealed: bytes, key: bytes, kid: bytes, checks: list[Check], context: Context
) -> Verdict:
    payload = _decrypt(key, sealed[4:], kid)
    if payload is None:
        detail = "the key is its own, and the tag does not match: the token was changed"
        hint = "Look at what stands between server and client, and at who presented it."
        checks.append(Check("authentication", "fail", detail, "authentication", hint))
        return Verdict(checks=skipped_after(checks, "nothing of it is authentic"))
    checks.append(Check("authentication", "pass", "the tag matches"))
    claims = sdk_claims.read_json(payload)
    if claims is None:
        detail = "authentic, but not the claims of the SDK"
        checks.append(Check("payload", "fail", detail, "malformed"))
        return Verdict(checks=skipped_after(checks, "there are no claims to check"))
    return sdk_claims.judge(claims, checks, None, context)


def _decrypt(key: bytes, sealed: bytes, kid: bytes) -> bytes | None:
    try:
        return AESGCM(key).decrypt(sealed[:12], sealed[12:], _PREFIX + kid)
    except InvalidTag:
        return None


def _judge_ruby(payload: bytes, checks: list[Check], context: Context) -> Verdict:
    checks.append(Check("authentication", "pass", "the tag matches, as the Ruby SDK makes it"))
    try:
        claims: Any = json.loads(payload)
        expires_at, audience, state = int(claims["exp"]), claims.get("aud"), claims["s"]
        bound = f"bound to {claims['m']} {claims['t']}; its arguments are not compared"
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        checks.append(Check("payload", "fail", "not the claims of the Ruby SDK", "malformed"))
        return Verdict(checks=skipped_after(checks, "there are no claims to check"))
    checks += [
        comparing.expiry(expires_at, None, math.floor(context.now), inclusive=True),
        comparing.audience(audience, context),
        Check("request", "skipped", bound),
    ]
    return Verdict(
        checks=skipped_after(checks, "this SDK has no such check"),
        claims={"audience": audience, "expires_at": expires_at},
        state=state,
        has_state=True,
    )


def _signed(token: Foreign, secret: bytes) -> bool:
    if token.format == foreign.TYPESCRIPT_SDK:
        data = _PREFIX + token.protected
    else:
        kid = (token.kid or "").encode()
        version = b"2" + len(kid).to_bytes(8, "big") + kid if token.kid is not None else b"1"
        # No associated data: eight zero bytes are its length.
        data = _RMCP_DOMAIN + version + bytes(8) + token.protected
    return hmac.compare_digest(hmac.digest(secret, data, "sha256"), token.tag)


def _expiry(token: Foreign, context: Context) -> Check:
    expires_at: float | None = (token.claims or {}).get("expires_at")
    if expires_at is None:
        return Check("expiry", "pass", "it never expires")
    now = math.floor(context.now) if token.format == foreign.TYPESCRIPT_SDK else context.now
    return comparing.expiry(expires_at, None, now, inclusive=True)


def _binding(token: Foreign) -> Check:
    bound = (token.claims or {}).get("principal_bound")
    detail = "bound by the server's own callback" if bound else "bound to nobody by its format"
    return Check("principal", "skipped", detail)

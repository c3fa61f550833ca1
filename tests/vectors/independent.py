"""A second implementation of the token format, version 1, that shares no code with statebox.

Written from the format page alone: the standard library, a CBOR of its own, and AES-GCM from
`cryptography`. It checks the vectors, and the tests open with it what statebox seals.

    python -m tests.vectors.independent        # checks statebox-v1.json, prints the count
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.vectors.plain_cbor import Reader, RefusedError, encode, head

METHODS = {"tools/call": 1, "prompts/get": 2, "resources/read": 3}
ALGS = {"A256GCM": 3, "HS256": 5}
VECTORS = Path(__file__).with_name("statebox-v1.json")


@dataclass(frozen=True)
class Presenter:
    """Who opens, when and for what."""

    now: float
    audience: str = "billing"
    principal: object = None
    request: dict[str, Any] | None = None
    leeway: float = 60
    max_rounds: int = 32
    max_chars: int = 65536


# --- keys and bindings, sections 3 and 5 --------------------------------------------------------


def derive(secret: bytes, purpose: str) -> bytes:
    """HKDF-SHA256 (RFC 5869) by hand: no salt, one block."""
    pseudorandom = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(pseudorandom, encode(["statebox", 1, purpose]) + b"\x01", "sha256")


def text_item(text: str) -> bytes:
    """Text as text; with a lone surrogate, as the byte string of its surrogatepass UTF-8."""
    try:
        return encode(text)
    except UnicodeEncodeError:
        return encode(text.encode("utf-8", "surrogatepass"))


def normalized(value: object) -> bytes:
    """Encode arguments so that equal numbers and reordered maps give the same bytes."""
    match value:
        case str():
            return text_item(value)
        case bool():
            return encode(value)
        case float():
            return _number(value)
        case list() | tuple():
            items = cast("list[object]", value)
            return head(4, len(items)) + b"".join(map(normalized, items))
        case dict():
            members = cast("dict[str, object]", value)
            pairs = sorted((text_item(key), normalized(item)) for key, item in members.items())
            return head(5, len(pairs)) + b"".join(key + item for key, item in pairs)
        case _:
            return encode(value)


def _number(number: float) -> bytes:
    if math.isnan(number):
        return b"\xf9\x7e\x00"
    if math.isinf(number):
        return b"\xf9\x7c\x00" if number > 0 else b"\xf9\xfc\x00"
    return encode(int(number)) if number == int(number) else encode(number)


def principal_tag(secret: bytes, principal: object) -> bytes | None:
    if principal is None:
        return None
    parts = [principal] if isinstance(principal, str) else list(cast("list[str]", principal))
    items = b"".join(text_item(part) for part in parts)
    return hmac.digest(derive(secret, "principal"), head(4, len(parts)) + items, "sha256")[:16]


def request_item(request: dict[str, Any] | None) -> list[object] | None:
    if request is None:
        return None
    method: str = request["method"]
    digest = hashlib.sha256(normalized(request.get("arguments") or {})).digest()[:16]
    return [METHODS.get(method, method), request["target"], digest]


# --- messages, sections 1 and 2 -----------------------------------------------------------------


def text_of(message: bytes) -> str:
    return "sb1." + base64.urlsafe_b64encode(message).decode().rstrip("=")


def message_of(token: str) -> bytes:
    if not token.startswith("sb1.") or not re.fullmatch(r"[A-Za-z0-9_-]+", token[4:], re.ASCII):
        raise RefusedError("malformed")
    try:
        message = base64.urlsafe_b64decode(token[4:] + "=" * (-len(token[4:]) % 4))
    except ValueError:
        raise RefusedError("malformed") from None
    if text_of(message) != token:
        raise RefusedError("malformed")
    return message


# --- opening, section 6 -------------------------------------------------------------------------


def open_token(token: str, jwks: dict[str, Any], who: Presenter) -> dict[str, Any]:
    """Open a token, or raise RefusedError with the code of the first check that fails."""
    if len(token) > who.max_chars:
        raise RefusedError("too_large")
    message = message_of(token)
    jwk, payload = _authenticated(message, jwks, who.now)
    claims = _claims(payload)
    _check(claims, jwk, who)
    found = {key: claims[key] for key in ("flow", "round", "deadline", "exp", "iat", "state")}
    return found | {
        "kid": jwk["kid"],
        "state_cbor": encode(claims["state"]),
        "id": hashlib.sha256(message).digest()[:16].hex(),
    }


def secret_of(jwk: dict[str, Any]) -> bytes:
    return base64.urlsafe_b64decode(cast("str", jwk["k"]) + "==")


def _authenticated(
    message: bytes, jwks: dict[str, Any], now: float
) -> tuple[dict[str, Any], bytes]:
    encrypted = message[:2] == b"\xd0\x83"
    if not encrypted and message[:2] != b"\xd1\x84":
        raise RefusedError("malformed")
    reader = Reader(message, 2)
    protected = reader.bstr()
    unprotected = b"\xa1\x05\x4c" if encrypted else b"\xa0"
    if reader.take(len(unprotected)) != unprotected:
        raise RefusedError("malformed")
    iv = reader.take(12) if encrypted else b""
    body = reader.bstr()
    tag = b"" if encrypted else reader.bstr(32)
    reader.end()
    if encrypted and len(body) < 16:
        raise RefusedError("malformed")
    jwk = _key(protected, jwks, now, encrypted=encrypted)
    content_key = derive(secret_of(jwk), jwk["alg"])
    if not encrypted:
        structure = b"\x84\x64MAC0" + encode(protected) + b"\x40" + encode(body)
        if not hmac.compare_digest(hmac.digest(content_key, structure, "sha256"), tag):
            raise RefusedError("authentication")
        return jwk, body
    try:
        aad = b"\x83\x68Encrypt0" + encode(protected) + b"\x40"
        return jwk, AESGCM(content_key).decrypt(iv, body, aad)
    except InvalidTag:
        raise RefusedError("authentication") from None


def _key(protected: bytes, jwks: dict[str, Any], now: float, *, encrypted: bool) -> dict[str, Any]:
    for jwk in cast("list[dict[str, Any]]", jwks["keys"]):
        if encode({1: ALGS[jwk["alg"]], 4: cast("str", jwk["kid"]).encode()}) == protected:
            if encrypted is not (jwk["alg"] == "A256GCM"):
                raise RefusedError("malformed")
            if jwk.get("revoked") is not None:
                raise RefusedError("revoked_key")
            if jwk.get("exp") is not None and now >= jwk["exp"]:
                raise RefusedError("expired_key")
            return jwk
    raise RefusedError("unknown_key")


def _claims(payload: bytes) -> dict[str, Any]:
    reader = Reader(payload)
    claims: dict[str, Any] = {}
    if reader.of(5) != 4:
        raise RefusedError("malformed")
    for key, name in ((3, "aud"), (4, "exp"), (6, "iat")):
        if reader.of(0) != key:
            raise RefusedError("malformed")
        claims[name] = reader.tstr() if name == "aud" else reader.of(0)
    if reader.of(1) != 65536 or reader.of(4) != 6:
        raise RefusedError("malformed")
    claims["flow"] = reader.bstr(8)
    claims["round"] = reader.of(0)
    claims["deadline"] = reader.of(0)
    claims["principal"] = None if reader.null() else reader.bstr(16)
    claims["request"] = None if reader.null() else _request(reader)
    claims["state"] = reader.state()
    reader.end()
    in_order = claims["iat"] <= claims["exp"] <= claims["deadline"] < 1 << 40
    if not (claims["aud"] and 1 <= claims["round"] <= 65535 and in_order):
        raise RefusedError("malformed")
    return claims


def _request(reader: Reader) -> list[object]:
    if reader.of(4) != 3:
        raise RefusedError("malformed")
    method: object
    if reader.data[reader.at : reader.at + 1] in (b"\x01", b"\x02", b"\x03"):
        method = reader.of(0)
    else:
        method = reader.tstr()
        if method in METHODS:
            raise RefusedError("malformed")
    return [method, reader.tstr(), reader.bstr(16)]


def _check(claims: dict[str, Any], jwk: dict[str, Any], who: Presenter) -> None:
    presented = principal_tag(secret_of(jwk), who.principal)
    for holds, code in (
        (claims["aud"] == who.audience, "audience"),
        (claims["iat"] <= who.now + who.leeway, "issued_in_future"),
        (who.now < claims["exp"], "expired"),
        (who.now < claims["deadline"], "flow_expired"),
        (claims["round"] <= who.max_rounds, "too_many_rounds"),
        (claims["principal"] == presented, "principal"),
        (claims["request"] == request_item(who.request), "request"),
    ):
        if not holds:
            raise RefusedError(code)


# --- the vectors --------------------------------------------------------------------------------


def presenter_of(case: dict[str, Any], vectors: dict[str, Any]) -> Presenter:
    return Presenter(
        case["now"],
        case["audience"],
        case["principal"],
        case["request"],
        vectors["leeway"],
        vectors["max_rounds"],
    )


def check_case(case: dict[str, Any], vectors: dict[str, Any]) -> str:
    """Open one case; return `ok` or the code of its refusal."""
    try:
        found = open_token(case["token"], vectors["keyring"], presenter_of(case, vectors))
    except RefusedError as refused:
        return cast("str", refused.args[0])
    as_written = {
        "state_cbor": found["state_cbor"].hex(),
        "flow": found["flow"].hex(),
        "round": found["round"],
        "key_id": found["kid"],
    }
    return (
        "ok"
        if all(case.get(name, value) == value for name, value in as_written.items())
        else "differs"
    )


def main() -> None:
    """Check every vector, and end with an error if one does not hold."""
    vectors = json.loads(VECTORS.read_text("utf-8"))
    wrong = [
        f"{case['name']}: {code}, expected {case['expect']}"
        for case in vectors["cases"]
        if (code := check_case(case, vectors)) not in case["expect"].split("|")
    ]
    if wrong:
        raise SystemExit("\n".join(wrong))
    sys.stdout.write(f"{len(vectors['cases'])} vectors hold\n")


if __name__ == "__main__":
    main()

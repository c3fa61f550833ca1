"""Authentic tokens of any content: whoever holds a key can authenticate whatever he likes.

Shares no code with statebox, so that a rule that sealing keeps by itself can still be broken here.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.vectors.independent import ALGS, derive, text_of
from tests.vectors.plain_cbor import encode


@dataclass(frozen=True)
class Maker:
    """Authenticates any bytes at all under one key, as `alg` or pretending another header."""

    kid: str
    alg: str
    secret: bytes = field(repr=False)
    protected: bytes = b""

    def header(self) -> bytes:
        return self.protected or encode({1: ALGS[self.alg], 4: self.kid.encode()})

    def message(self, payload: bytes, *, iv: bytes = b"\x07" * 12) -> bytes:
        key, protected = derive(self.secret, self.alg), encode(self.header())
        if self.alg == "A256GCM":
            body = AESGCM(key).encrypt(iv, payload, b"\x83\x68Encrypt0" + protected + b"\x40")
            return b"\xd0\x83" + protected + b"\xa1\x05\x4c" + iv + encode(body)
        tag = hmac.digest(key, b"\x84\x64MAC0" + protected + b"\x40" + encode(payload), "sha256")
        return b"\xd1\x84" + protected + b"\xa0" + encode(payload) + encode(tag)

    def token(self, payload: bytes, *, iv: bytes = b"\x07" * 12) -> str:
        return text_of(self.message(payload, iv=iv))


def payload_of(**claims: object) -> bytes:
    """Write a payload; each claim can be replaced by a value, or by Raw bytes, of any kind."""
    now = 1_790_000_000
    named: dict[str, object] = {
        "aud": "billing",
        "exp": now + 600,
        "iat": now,
        "flow": b"\x01" * 8,
        "round": 1,
        "deadline": now + 3600,
        "principal": None,
        "request": None,
        "state": {"step": "confirm"},
    } | claims
    keys = ("flow", "round", "deadline", "principal", "request", "state")
    continuation = [named[key] for key in keys]
    return encode({3: named["aud"], 4: named["exp"], 6: named["iat"], -65537: continuation})

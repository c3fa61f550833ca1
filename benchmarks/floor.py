"""The floor: what the bare primitives take for the same bytes, with nothing around them.

Sealing is `cbor2.dumps`, `os.urandom`, AES-GCM or HMAC, and base64; opening is base64, AES-GCM or
HMAC with `compare_digest`, `cbor2.loads` and `time.time`. Nothing is checked, looked up, derived
or wrapped, the payload is a map at hand, and the HMAC has its key scheduled already, which is the
fastest HMAC there is from Python. Payload and token have as many bytes as statebox's own.
"""

from __future__ import annotations

import hmac
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

import cbor2
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from benchmarks.cases import AUDIENCE, TTL, Pair
from statebox.cbor import head
from statebox.envelope import protected_header
from statebox.keys import A256GCM, HS256
from statebox.state import State

_SECRET = bytes(range(32))
_KID = "0000"  # as long as the names of the rings of these benchmarks


def floor_of(alg: str, state: State) -> Pair:
    """Give the bare calls that protect a state in one of the two modes, and read it again."""
    seal, read = (_encrypted if alg == A256GCM else _signed)(_payload(state))
    token = seal().decode()
    return Pair(seal, lambda: read(token), lambda: read(seal().decode()))


def raw_pair(size: int) -> Pair:
    """Give AES-GCM and base64 alone, for so many bytes at hand."""
    aead, iv, data = AESGCM(_SECRET), os.urandom(12), os.urandom(size)

    def seal() -> bytes:
        return urlsafe_b64encode(aead.encrypt(iv, data, b""))

    def read(token: bytes) -> bytes:
        return aead.decrypt(iv, urlsafe_b64decode(token), b"")

    token = seal()
    return Pair(seal, lambda: read(token), lambda: read(seal()))


def _payload(state: State) -> dict[int, object]:
    now = int(time.time())
    continuation = [os.urandom(8), 1, now + 3600, None, None, state]
    return {3: AUDIENCE, 4: now + TTL, 6: now, -65537: continuation}


def _wrapped(alg: str) -> bytes:
    protected = protected_header(_KID, alg)
    return head(0x40, len(protected)) + protected


def _encrypted(payload: object) -> tuple[Callable[[], bytes], Callable[[str], object]]:
    aead, aad = AESGCM(_SECRET), b"\x83\x68Encrypt0" + _wrapped(A256GCM) + b"\x40"
    size = len(cbor2.dumps(payload)) + 16
    before = b"\xd0\x83" + _wrapped(A256GCM) + b"\xa1\x05\x4c"
    between = head(0x40, size)
    iv_at, iv_end = len(before), len(before) + 12
    body_at = iv_end + len(between)

    def seal() -> bytes:
        iv = os.urandom(12)
        return urlsafe_b64encode(
            before + iv + between + aead.encrypt(iv, cbor2.dumps(payload), aad)
        )

    def read(token: str) -> object:
        message = urlsafe_b64decode(token)
        return cbor2.loads(aead.decrypt(message[iv_at:iv_end], message[body_at:], aad)), time.time()

    return seal, read


def _signed(payload: object) -> tuple[Callable[[], bytes], Callable[[str], object]]:
    mac = HMAC(_SECRET, SHA256())
    before = b"\xd1\x84" + _wrapped(HS256) + b"\xa0" + head(0x40, len(cbor2.dumps(payload)))
    mac.update(b"\x84\x64MAC0" + _wrapped(HS256) + b"\x40" + head(0x40, len(cbor2.dumps(payload))))
    payload_at = len(before)

    def seal() -> bytes:
        data = cbor2.dumps(payload)
        now = mac.copy()
        now.update(data)
        return urlsafe_b64encode(before + data + b"\x58\x20" + now.finalize())

    def read(token: str) -> object:
        message = urlsafe_b64decode(token)
        data = message[payload_at:-34]
        now = mac.copy()
        now.update(data)
        if not hmac.compare_digest(now.finalize(), message[-32:]):
            raise ValueError
        return cbor2.loads(data), time.time()

    return seal, read

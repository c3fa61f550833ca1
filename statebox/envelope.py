"""COSE_Encrypt0 and COSE_Mac0 as exact bytes (RFC 9052 §5.2, §6.2), and the text form.

There is one encoding of every message. No decoder runs on bytes that are not authenticated yet:
the frame is sliced by lengths and compared with what `Envelope.seal` would have written.
Knows no claims and no clock.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from hmac import compare_digest
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from statebox.cbor import content_at, head, read_head
from statebox.keys import A256GCM

PREFIX: Final = "sb1."
IV_BYTES: Final = 12
TAG_BYTES: Final = 16
MAC_BYTES: Final = 32

_ENCRYPT0: Final = b"\xd0\x83"
_MAC0: Final = b"\xd1\x84"
_IV_HEADER: Final = b"\xa1\x05\x4c"  # {5: iv of 12 bytes}
_NO_HEADER: Final = b"\xa0"
_MAC_HEAD: Final = b"\x58\x20"  # a byte string of 32
_MAC_ITEM: Final = len(_MAC_HEAD) + MAC_BYTES
_NO_MAC: Final = "no tag of 32 bytes"
_COSE_ALG: Final = {A256GCM: 3, "HS256": 5}

# '-' and '_' become what the decoder knows; '+', '/' and '=' become what it refuses.
_TO_BASE64: Final = bytes.maketrans(b"-_+/=", b"+/!!!")
_TO_BASE64URL: Final = bytes.maketrans(b"+/", b"-_")
_PADDING: Final = (b"", b"", b"==", b"=")
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# What may stand last: a group of 4 characters is full, a group of 1 does not exist, one of 2 (3)
# leaves 4 (2) low bits of its last character unused.
_LAST: Final = (
    frozenset(_ALPHABET),
    frozenset[str](),
    frozenset(_ALPHABET[::16]),
    frozenset(_ALPHABET[::4]),
)


def to_text(message: bytes) -> str:
    """Write a message as a token (format, section 1)."""
    text = b2a_base64(message, newline=False).translate(_TO_BASE64URL)
    return PREFIX + text.rstrip(b"=").decode()


def from_text(token: str) -> bytes:
    """Read the message out of a token; the exact inverse of `to_text`.

    Args:
        token: Any text; the caller has checked its length.

    Returns:
        The message, of any content.

    Raises:
        ValueError: It is not the prefix and canonical base64url without padding.
    """
    if not token.startswith(PREFIX):
        raise ValueError("not this text form")
    rest = len(token) % 4  # the prefix has 4 characters
    # INVARIANT: canonical base64url only: the last character has no unused low bit set, ...
    if token[-1] not in _LAST[rest]:
        raise ValueError("a length or a last character that base64url does not have")
    # ... and no character stands for another: see _TO_BASE64. UnicodeEncodeError is a ValueError.
    text = token[4:].encode().translate(_TO_BASE64)
    return a2b_base64(text + _PADDING[rest], strict_mode=True)


def protected_of(message: bytes) -> bytes:
    """Check the frame of a message, whatever key it names, and slice its protected header.

    Args:
        message: Any bytes.

    Returns:
        The header's bytes; the rest of the message is one of the two profiles.

    Raises:
        ValueError: It is neither profile, a length has a longer form, or bytes are left over.
    """
    encrypted = message.startswith(_ENCRYPT0)
    if not encrypted and not message.startswith(_MAC0):
        raise ValueError("neither COSE_Encrypt0 nor COSE_Mac0")
    length, start_ = read_head(message, 2, 0x40)
    end = start_ + length
    unprotected = _IV_HEADER if encrypted else _NO_HEADER
    if not message.startswith(unprotected, end):
        raise ValueError("another unprotected header")
    body_at = end + len(unprotected)
    if encrypted:
        content_at(message, body_at + IV_BYTES, len(message), 0x40, TAG_BYTES)
    else:
        if message[-_MAC_ITEM:-MAC_BYTES] != _MAC_HEAD:
            raise ValueError(_NO_MAC)
        content_at(message, body_at, len(message) - _MAC_ITEM, 0x40)
    return message[start_:end]


def protected_header(kid: str, alg: str) -> bytes:
    """Write the protected header `{1: alg, 4: kid}`, by which a ring finds its key."""
    return b"\xa2\x01%b\x04%b%b" % (
        head(0, _COSE_ALG[alg]),
        head(0x40, len(kid)),
        kid.encode("ascii"),
    )


def start(protected: bytes, *, encrypted: bool) -> bytes:
    """Write the first bytes of every message under a protected header, up to its iv or payload."""
    wrapped = head(0x40, len(protected)) + protected
    return _ENCRYPT0 + wrapped + _IV_HEADER if encrypted else _MAC0 + wrapped + _NO_HEADER


def start_of(message: bytes) -> bytes:
    """Slice the bytes that would be the `start` of a message; they are whatever they are."""
    if len(message) < 4:
        return b""
    length = message[2]
    end = 4 + message[3] if length == 0x58 else length - 0x3D
    return message[: end + 3 if message[0] == 0xD0 else end + 1]


class Envelope:
    """Seals and opens messages under one content key.

    Args:
        kid: The key's id, for the protected header.
        alg: `"A256GCM"` or `"HS256"`.
        content_key: 32 bytes, derived for this algorithm only.
    """

    __slots__ = ("_aad", "_aead", "_body_at", "_mac", "_start", "encrypted")

    def __init__(self, kid: str, alg: str, content_key: bytes) -> None:
        self.encrypted = alg == A256GCM
        protected = protected_header(kid, alg)
        wrapped = head(0x40, len(protected)) + protected
        self._start = start(protected, encrypted=self.encrypted)
        if self.encrypted:
            self._aead = AESGCM(content_key)
            self._aad = b"\x83\x68Encrypt0" + wrapped + b"\x40"  # RFC 9052 §5.3: Enc_structure
            self._body_at = len(self._start) + IV_BYTES
        else:
            self._mac = HMAC(content_key, SHA256())
            # RFC 9052 §6.3: MAC_structure, up to the payload; hashed once, copied for every token.
            self._mac.update(b"\x84\x64MAC0" + wrapped + b"\x40")
            self._body_at = len(self._start)

    def seal(self, payload: bytes, iv: bytes) -> bytes:
        """Protect a payload.

        Args:
            payload: The bytes to protect.
            iv: 12 fresh random bytes, never used before under this key; signing ignores them.

        Returns:
            The whole COSE message.
        """
        if self.encrypted:
            body = self._aead.encrypt(iv, payload, self._aad)
            return b"".join((self._start, iv, head(0x40, len(body)), body))
        body = head(0x40, len(payload)) + payload
        mac = self._mac.copy()
        mac.update(body)
        return b"".join((self._start, body, _MAC_HEAD, mac.finalize()))

    def open(self, message: bytes) -> bytes | None:
        """Check the frame of a message, and authenticate it.

        Args:
            message: A message that begins with this envelope's `start`.

        Returns:
            The payload, or None if the tag does not match.

        Raises:
            ValueError: A length has a longer form, there is no room for a tag, or bytes are left.
        """
        # The frame is as `protected_of` has it for any key; it stands here again for speed.
        body_at = self._body_at
        if self.encrypted:
            at = content_at(message, body_at, len(message), 0x40, TAG_BYTES)
            try:
                return self._aead.decrypt(
                    message[body_at - IV_BYTES : body_at], message[at:], self._aad
                )
            except InvalidTag:
                return None
        end = len(message) - _MAC_ITEM
        if message[end:-MAC_BYTES] != _MAC_HEAD:
            raise ValueError(_NO_MAC)
        at = content_at(message, body_at, end, 0x40)
        # INVARIANT: the tag is compared in constant time, before a byte of the payload is used.
        mac = self._mac.copy()
        mac.update(message[body_at:end])
        if not compare_digest(mac.finalize(), message[-MAC_BYTES:]):
            return None
        return message[at:end]

"""What a token is, without a key: its text, its frame, the sizes of its parts, what is missing.

Nothing here is authenticated. No decoder runs on a token but the library's own, which slices, and
the bounded parser of `cbor_text`.
"""

from __future__ import annotations

import binascii
import math
import re
from typing import Final, NamedTuple

from statebox.cbor import read_head
from statebox.claims import token_id
from statebox.envelope import (
    IV_BYTES,
    MAC_BYTES,
    PREFIX,
    TAG_BYTES,
    from_text,
    protected_of,
    start,
)
from statebox.errors import KeyringError
from statebox.keys import require_kid

_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_ALGORITHMS: Final = {3: "A256GCM", 5: "HS256"}
_SHORTEST: Final = 64  # characters; no token of statebox is shorter
_ENCRYPT0: Final = b"\xd0\x83"
_MAC0: Final = b"\xd1\x84"


class Frame(NamedTuple):
    """A message cut into its parts; nothing in it is authenticated.

    Attributes:
        encrypted: True for COSE_Encrypt0, False for COSE_Mac0.
        protected: The protected header's bytes.
        body: Ciphertext with its tag; or the payload.
    """

    encrypted: bool
    protected: bytes
    body: bytes


class Header(NamedTuple):
    """What a protected header says, if it is of the one form that statebox writes.

    Attributes:
        kid: The key's id.
        alg: `"A256GCM"` or `"HS256"`.
    """

    kid: str
    alg: str


class Anatomy(NamedTuple):
    """A token cut into its parts.

    Attributes:
        chars: The length of its text.
        message: The bytes that the text stands for; None where it is not the text form.
        frame: The parts of the message; None where it is not the frame.
        header: What the protected header says; None where it is of another form.
        text_problem: Why it is not the text form; None where it is.
        frame_problem: Why it is not the frame; None where it is.
    """

    chars: int
    message: bytes | None
    frame: Frame | None
    header: Header | None
    text_problem: str | None
    frame_problem: str | None

    @property
    def token_id(self) -> str | None:
        """32 hex digits that name the token in logs."""
        return None if self.message is None else token_id(self.message)

    @property
    def alg(self) -> str | None:
        """The algorithm that the frame is of."""
        if self.frame is None:
            return None
        return "A256GCM" if self.frame.encrypted else "HS256"

    @property
    def parts(self) -> dict[str, int]:
        """The size of each part in bytes, in their order."""
        frame = self.frame
        if frame is None:
            return {}
        if frame.encrypted:
            text = len(frame.body) - TAG_BYTES
            sizes = {"iv": IV_BYTES, "ciphertext": text, "tag": TAG_BYTES}
        else:
            sizes = {"payload": len(frame.body), "tag": MAC_BYTES}
        return {"header": len(frame.protected)} | sizes


def take_apart(token: str) -> Anatomy:
    """Cut a token into its parts, as far as they are there.

    Args:
        token: Any text.

    Returns:
        What was found, and what is wrong with the rest.
    """
    try:
        message = from_text(token)
    except ValueError:
        return Anatomy(len(token), None, None, None, _text_problem(token), None)
    try:
        frame = _parse_frame(message)
    except ValueError:
        header = _read_header(_protected(message))
        return Anatomy(len(token), message, None, header, None, _frame_problem(token, message))
    return Anatomy(len(token), message, frame, _read_header(frame.protected), None, None)


def _parse_frame(message: bytes) -> Frame:
    protected = protected_of(message)
    encrypted = message.startswith(_ENCRYPT0)
    at = len(start(protected, encrypted=encrypted)) + (IV_BYTES if encrypted else 0)
    size, at = read_head(message, at, 0x40)
    return Frame(encrypted, protected, message[at : at + size])


def is_whole(token: str) -> bool:
    """Tell whether a text is a token of the text form and the frame, whatever its key."""
    return take_apart(token).frame is not None


def is_cut_short(token: str) -> bool:
    """Tell whether a text begins as a token does and ends before the token would."""
    if not token.startswith(PREFIX) or not _ALPHABET.issuperset(token[len(PREFIX) :]):
        return False
    return not is_whole(token) and (_missing(_whole_groups(token)) or 0) > 0


def _text_problem(token: str) -> str:
    if not token.startswith(PREFIX):
        return f"it does not begin with {PREFIX}" if token else "there is no text"
    if (ellipsis := re.search(r"\u2026|\.\.\.", token)) is not None:
        return (
            f"the token has a part left out at character {ellipsis.start() + 1}, by what showed it"
        )
    for place, char in enumerate(token[len(PREFIX) :], start=len(PREFIX) + 1):
        if char not in _ALPHABET:
            return f"character {place} is {char!a}, which base64url does not have"
    return (
        _length_problem(_whole_groups(token))
        or "its last character does not end a base64url text: cut short by one, or changed"
    )


def _frame_problem(token: str, message: bytes) -> str:
    if not message.startswith((_ENCRYPT0, _MAC0)):
        if len(token) >= _SHORTEST and token.lower() == token:
            return "the token is all in lower case, and base64url is lost without its capitals"
        return "the bytes are neither COSE_Encrypt0 nor COSE_Mac0"
    return _length_problem(message) or "the message has another layout than statebox writes"


def _length_problem(message: bytes) -> str | None:
    missing = _missing(message)
    if not missing:
        return None
    if missing < 0:
        return f"{-missing} bytes too many: something was appended"
    if missing == math.inf:
        return "the token is cut short: it ends within its header"
    chars = math.ceil(missing * 4 / 3)
    return f"the token is cut short: at least {chars} characters are missing at its end"


def _whole_groups(token: str) -> bytes:
    rest = token[len(PREFIX) :]
    whole = rest[: len(rest) // 4 * 4].encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
    return binascii.a2b_base64(whole)


def _missing(message: bytes) -> float | None:
    # How many bytes the frame announces and the message lacks; infinite where it ends before its
    # lengths do, None where it is no frame of ours.
    if not message.startswith((_ENCRYPT0, _MAC0)):
        return math.inf if len(message) < 2 else None
    encrypted = message.startswith(_ENCRYPT0)
    try:
        length, at = read_head(message, 2, 0x40)
        at += length + (3 + IV_BYTES if encrypted else 1)
        length, at = read_head(message, at, 0x40)
    except ValueError:
        # The longest header ends before byte 64.
        return math.inf if len(message) < 64 else None
    return at + length + (0 if encrypted else 2 + MAC_BYTES) - len(message)


def _protected(message: bytes) -> bytes:
    try:
        length, at = read_head(message, 2, 0x40)
    except ValueError:
        return b""
    return message[at : at + length]


def _read_header(protected: bytes) -> Header | None:
    # {1: alg, 4: kid}, byte for byte as `envelope.protected_header` writes it.
    if not protected.startswith(b"\xa2\x01") or protected[3:4] != b"\x04":
        return None
    alg = _ALGORITHMS.get(protected[2])
    try:
        length, at = read_head(protected, 4, 0x40)
        kid = protected[at:].decode("ascii")
        require_kid(kid)
    except (ValueError, KeyringError):
        return None
    return Header(kid, alg) if alg is not None and length == len(kid) else None

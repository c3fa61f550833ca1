"""What a shell, a chat client or a mail program did to a token: named, and undone where it can be.

A server refuses what is mended here, and rightly. This is for a person who pastes.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from typing import Final, NamedTuple

from statebox.envelope import PREFIX
from statebox_cli.anatomy import is_whole

TRIMMED: Final = "blanks around it"
_INVISIBLE: Final = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_SMART_QUOTES: Final = "\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb"
_DASHES: Final = {0x2010: "-", 0x2011: "-", 0x2013: "-", 0x2014: "--", 0x2212: "-"}
# Each run of backslashes or blanks is tried from its start only, or a long one takes its square.
_ESCAPE: Final = re.compile(r"(?<!\\)\\+(?:u00([0-9a-fA-F]{2})|([nrt/\"']))")
_WRAP: Final = re.compile(r"[=\\]?(?<!\s)\s*\n[>|\s]*")
_MESSAGE: Final = re.compile(r"(?:s?b?1?\.)?(0[IY][A-Za-z0-9_-]+)")
_LONGEST: Final = 1 << 20  # characters; 16 times what a server takes unless it is told otherwise


class Mended(NamedTuple):
    """A text, and what was done to it.

    Attributes:
        text: The text, with what could be undone undone.
        damage: What was undone, each as a few words; empty where nothing was.
    """

    text: str
    damage: tuple[str, ...]


def mend(text: str) -> Mended:
    """Undo what happens to a token on its way through terminals, chats and forms.

    Args:
        text: What a person pasted, without anything around it that is not part of the token.

    Returns:
        The text as it probably was, and the names of what was done to it. A text far longer than
        a token is left as it is.
    """
    if len(text) > _LONGEST:
        return Mended(text, ())
    damage: list[str] = []
    for name, undo in _STEPS:
        better = undo(text)
        if better != text:
            damage.append(name)
            text = better
    return Mended(text, tuple(damage))


def without_line_end(text: str) -> str:
    """Take one line break off the end: a file ends with one, and nobody has put it there."""
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _unquote(text: str) -> str:
    return text.strip("\"'`<>()[]{},;")


def _unwrap(text: str) -> str:
    return _WRAP.sub("", text) if "\n" in text else text


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return "" if match[2] in "nrt" else match[2]

    return _ESCAPE.sub(plain, text)


def _percent_decode(text: str) -> str:
    return urllib.parse.unquote(text) if "%" in text else text


def _to_base64url(text: str) -> str:
    # Only of a token: other base64 may well be what it is meant to be.
    if not text.startswith((PREFIX, "SB1.", "0I", "0Y")) or not any(c in text for c in "+/="):
        return text
    return text.rstrip("=").replace("+", "-").replace("/", "_")


def _prefix(text: str) -> str:
    # The first bytes of a message, D0 83 or D1 84, begin as `0I` or `0Y` in base64url.
    match = _MESSAGE.fullmatch(text)
    return PREFIX + match[1] if match and is_whole(PREFIX + match[1]) else text


def _lower_prefix(text: str) -> str:
    return PREFIX + text[4:] if text[:4].lower() == PREFIX else text


_STEPS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("invisible characters", lambda text: text.translate(_INVISIBLE)),
    (TRIMMED, str.strip),
    ("quotes around it", _unquote),
    ("smart quotes", lambda text: text.strip(_SMART_QUOTES)),
    ("line wraps", _unwrap),
    ("escapes of JSON or of a shell", _unescape),
    ("URL-encoding", _percent_decode),
    ("blanks inside it", lambda text: "".join(text.split())),
    ("smart dashes", lambda text: text.translate(_DASHES)),
    ("standard base64 in the place of base64url", _to_base64url),
    ("a prefix in capitals", _lower_prefix),
    (f"a missing prefix ({PREFIX})", _prefix),
)
"""What can happen, in the order in which it is undone."""

"""Tokens that are not statebox's: which program made them, and what they say without a key.

Read, with bounds: the MCP Python and Ruby SDKs' `v1.`, the TypeScript SDK's `v1.x.y`, rmcp's
`rs1.` and `rs2.`, and JSON that nothing protects. Of others only what they look like is said.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from statebox.state import State

PYTHON_SDK: Final = "python-sdk-v1"
TYPESCRIPT_SDK: Final = "typescript-sdk-v1"
RMCP_1: Final = "rmcp-rs1"
RMCP_2: Final = "rmcp-rs2"
READABLE: Final = frozenset({PYTHON_SDK, TYPESCRIPT_SDK, RMCP_1, RMCP_2})

_WORDS: Final = re.compile(r"[A-Za-z0-9_-]+")
_PASETO: Final = re.compile(r"v[1-4]\.(local|public)\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?")
_LONGEST_JSON: Final = 1 << 20  # characters of a text that is tried as JSON


class Foreign(NamedTuple):
    """A token of another program, as far as it can be read without a key.

    Attributes:
        format: A stable name of the format.
        name: The same for a person.
        message: The bytes that are protected, or that the text stands for.
        alg: The algorithm, where the format has one.
        kid: The key's id, where the token names one.
        parts: The size of each part in bytes.
        protected: What stands under the tag, as the bytes that the program signs.
        tag: The tag; empty where it is part of `message`.
        claims: What it says, where that can be read without a key.
        state: The state, where it can be read without a key.
        has_state: Whether `state` is known.
    """

    format: str
    name: str
    message: bytes
    alg: str | None = None
    kid: str | None = None
    parts: Mapping[str, int] = MappingProxyType({})
    protected: bytes = b""
    tag: bytes = b""
    claims: dict[str, Any] | None = None
    state: State = None
    has_state: bool = False

    @property
    def token_id(self) -> str:
        """32 hex digits that name it in logs."""
        return hashlib.sha256(self.message).hexdigest()[:32]


def recognise(text: str) -> Foreign | None:
    """Tell which program made a token.

    Args:
        text: Any text that is no token of statebox.

    Returns:
        What is known; None if it looks like nothing that is known.
    """
    words = text.split(".")
    if text.startswith("v1.") and len(words) == 2:
        return _python_sdk(words[1])
    if text.startswith("v1.") and len(words) == 3:
        return _typescript_sdk(words[1], words[2])
    if text.startswith(("rs1.", "rs2.")) and len(words) == 2 + int(text[2]):
        return _rmcp(words)
    return _looks_like(text, words)


def _python_sdk(word: str) -> Foreign | None:
    raw = decode(word)
    if raw is None or len(raw) < 4 + 12 + 16:
        return None
    return Foreign(
        format=PYTHON_SDK,
        name="a token of the MCP Python SDK's built-in codec (or the Ruby SDK's)",
        message=raw,
        alg="A256GCM",
        kid=raw[:4].hex(),
        parts={"kid": 4, "iv": 12, "ciphertext": len(raw) - 32, "tag": 16},
    )


def _typescript_sdk(body_word: str, tag_word: str) -> Foreign | None:
    body, tag = decode(body_word), decode(tag_word)
    value = _json(body)
    if body is None or tag is None or not isinstance(value, dict):
        return None
    envelope = cast("dict[str, Any]", value)
    if "p" not in envelope or type(envelope.get("exp")) not in (int, float):
        return None
    return Foreign(
        format=TYPESCRIPT_SDK,
        name="a token of the MCP TypeScript SDK's createRequestStateCodec",
        message=body + tag,
        alg="HS256",
        parts={"payload": len(body), "tag": len(tag)},
        protected=body_word.encode("ascii"),
        tag=tag,
        claims={"expires_at": envelope["exp"], "principal_bound": "b" in envelope},
        state=envelope["p"],
        has_state=True,
    )


def _rmcp(words: list[str]) -> Foreign | None:
    *kid_word, body, tag = [decode(word) for word in words[1:]]
    kid = kid_word[0] if kid_word else b""
    if kid is None or body is None or tag is None or len(body) < 8:
        return None
    expires_ms = int.from_bytes(body[:8], "big", signed=True)
    state = _json(body[8:])
    try:
        text = kid.decode() if kid_word else None
    except UnicodeDecodeError:
        return None
    return Foreign(
        format=RMCP_2 if kid_word else RMCP_1,
        name=f"a token of rmcp, the Rust SDK ({words[0]})",
        message=body + tag,
        alg="HS256",
        kid=text,
        parts={"payload": len(body), "tag": len(tag)},
        protected=body,
        tag=tag,
        claims={"expires_at": expires_ms / 1000 if expires_ms else None},
        state=body[8:] if state is None else state,
        has_state=True,
    )


def _looks_like(text: str, words: list[str]) -> Foreign | None:
    raw = decode(text) or _standard_base64(text)
    header = _json(decode(words[0])) if len(words) in (3, 5) else None
    if isinstance(header, dict) and "alg" in header:
        name = "a JWT" if len(words) == 3 else "an encrypted JWT"
        return Foreign(format="jwt", name=f"what looks like {name}", message=text.encode())
    if _PASETO.fullmatch(text):
        return Foreign(format="paseto", name="what looks like a PASETO", message=text.encode())
    if text.startswith("gAAAAA") and raw is not None and len(raw) >= 73:
        return Foreign(format="fernet", name="what looks like a Fernet token", message=raw)
    state = _json(text.encode("utf-8", "replace"))
    if state is not None:
        return _unprotected("json", "plain JSON", text.encode("utf-8", "replace"), state)
    state = _json(raw)
    if raw is not None and state is not None:
        return _unprotected("base64-json", "base64 of JSON", raw, state)
    return None


def _unprotected(kind: str, name: str, message: bytes, state: Any) -> Foreign:  # noqa: ANN401
    return Foreign(format=kind, name=name, message=message, state=state, has_state=True)


def decode(word: str) -> bytes | None:
    """Decode base64url with or without padding; None if it is not that."""
    core = word.rstrip("=")
    if not _WORDS.fullmatch(core):
        return None
    try:
        return base64.urlsafe_b64decode(core + "=" * (-len(core) % 4))
    except binascii.Error:
        return None


def _standard_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None


def _json(data: bytes | None) -> Any:  # noqa: ANN401 - None for what is not JSON of a container
    if data is None or len(data) > _LONGEST_JSON:
        return None
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("Any", value) if isinstance(value, dict | list) else None

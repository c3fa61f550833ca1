"""What opening a token gives back."""

from __future__ import annotations

from typing import Any, final

from statebox.claims import (
    AUDIENCE,
    DEADLINE,
    EXPIRES_AT,
    FLOW,
    ISSUED_AT,
    ROUND,
    Fields,
    token_id,
)
from statebox.state import State


@final
class Continuation:
    """A server's half-finished work, out of a token whose every check held. Immutable."""

    # Slots behind read-only properties: immutable, and made in a fifth of the time that a frozen
    # dataclass takes. Nothing is computed before somebody asks.
    __slots__ = ("_fields", "_key_id", "_message", "_state")

    def __init__(self, state: State, fields: Fields, key_id: str, message: bytes) -> None:
        self._state = state
        self._fields = fields
        self._key_id = key_id
        self._message = message

    @property
    def state(self) -> Any:  # noqa: ANN401 - said below
        """What was sealed, equal to what went in.

        (Any, as `json.loads` has it: only who sealed it knows its shape.)
        """
        return self._state

    @property
    def flow(self) -> str:
        """16 hex digits, random, the same in every round of one flow."""
        return self._fields[FLOW].hex()

    @property
    def round(self) -> int:
        """1 in the first token of a flow."""
        return self._fields[ROUND]

    @property
    def issued_at(self) -> int:
        """When this round was sealed, in seconds since 1970."""
        return self._fields[ISSUED_AT]

    @property
    def expires_at(self) -> int:
        """When this round's token ends, in seconds since 1970."""
        return self._fields[EXPIRES_AT]

    @property
    def deadline(self) -> int:
        """When the whole flow ends, in seconds since 1970."""
        return self._fields[DEADLINE]

    @property
    def key_id(self) -> str:
        """The kid of the key that sealed it."""
        return self._key_id

    @property
    def token_id(self) -> str:
        """32 hex digits that name this token, for logs and for single use."""
        return token_id(self._message)

    @property
    def audience(self) -> str:
        """The service it was sealed for."""
        return self._fields[AUDIENCE].decode()

    # A state may hold what the user told the server; it is printed only by who asks for `.state`.
    def __repr__(self) -> str:
        return f"<Continuation flow={self.flow} round={self.round} key_id={self.key_id}>"

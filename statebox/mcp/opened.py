"""What a codec has opened in this request: for middleware inside of the SDK's boundary.

There, the token is gone from the request and its text has taken the place. The SDK opens it in the
task that runs the handler, so a context variable carries what names it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextvars import ContextVar
from functools import cached_property
from typing import Final, cast, final

from statebox.claims import token_id


@final
class OpenedState:
    """A state that a codec opened, and that the SDK is about to check.

    Args:
        claims: The SDK's claims, as the codec gave them.
        message: The token's message.
        key_id: The kid of the key that sealed it.
        seal: Seals other bytes under the same ring.
        open_: Opens what `seal` made.

    Attributes:
        spent: Set once single use has let this request pass, for dispatches within it.
    """

    flow: None = None
    round: None = None

    def __init__(
        self,
        claims: bytes,
        message: bytes,
        key_id: str,
        seal: Callable[[bytes], str],
        open_: Callable[[str], bytes],
    ) -> None:
        self.key_id = key_id
        self.seal = seal
        self.open = open_
        self.spent = False
        self._claims = claims
        self._message = message

    @property
    def token_id(self) -> str:
        """32 hex digits that name the token."""
        return token_id(self._message)

    @property
    def issued_at(self) -> int:
        """When it was sealed, in seconds since 1970."""
        return math.floor(cast("float", self._members["iat"]))

    @property
    def expires_at(self) -> int:
        """When it ends, in seconds since 1970."""
        return math.ceil(cast("float", self._members["exp"]))

    def holds(self, state: object) -> bool:
        """Tell whether this is the state that a handler is about to see."""
        return isinstance(state, str) and state == self._members.get("s")

    @cached_property
    def _members(self) -> dict[str, object]:
        # A codec carries any bytes; only claims of the SDK have members.
        try:
            claims: object = json.loads(self._claims)
        except ValueError:
            claims = None
        return cast("dict[str, object]", claims) if isinstance(claims, dict) else {}


OPENED: Final[ContextVar[OpenedState | None]] = ContextVar("statebox_opened", default=None)

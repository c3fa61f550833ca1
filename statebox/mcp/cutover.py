"""Moving off the SDK's built-in codec: its `v1.` tokens are accepted for a while, and never made.

A flow that began before the move is finished after it. What an old token claims is checked by the
SDK's own public classes with the old deployment's settings, so nothing passes here that passed not
before. Each old token that is accepted is logged: when no more come, the window can be closed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeGuard, cast, final

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.request_state import (
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
)
from mcp.shared.exceptions import MCPError

from statebox.bindings import Request
from statebox.claims import token_id
from statebox.errors import AuthenticationError, ClaimError, OpenError
from statebox.events import Hook, Opened
from statebox.mcp.answers import logger
from statebox.reports import report_rejected

SDKKeys: TypeAlias = Sequence[bytes | bytearray | str]
"""What the SDK's `RequestStateSecurity` takes as `keys=`."""

SDKPrincipal: TypeAlias = Callable[[ServerRequestContext[Any, Any]], str | None] | None
"""What it takes as `bind_principal=`."""

SDK_KEY: Final = "sdk:v1"
"""Stands for the kid of such a token, in events and logs; no kid of a ring has a colon."""

_PREFIX: Final = "v1."


def is_sdk_token(token: object) -> TypeGuard[str]:
    """Tell whether a token has the form of the SDK's built-in codec."""
    return isinstance(token, str) and token.startswith(_PREFIX)


def unseal(codec: RequestStateCodec, token: str) -> bytes:
    """Give the SDK's claims out of a token of its built-in codec.

    Raises:
        AuthenticationError: No key opens it.
    """
    try:
        return codec.unseal(token)
    except InvalidRequestState as error:
        raise AuthenticationError(
            f"no key of accept_sdk_keys opens the token of the SDK's: {error}",
            hint="Give accept_sdk_keys every key that the old deployment opens with.",
        ) from None


def sdk_token_id(token: str) -> str:
    """Name a token that was opened, for logs and for single use: 32 hex digits.

    The SDK takes one text only for a message, so a hash of the text will do.
    """
    return token_id(token.encode())


def log_accepted(name: str, method: str | None = None) -> None:
    """Log that a token of the SDK's of this name was accepted, on a request of this method."""
    logger.info(
        "sdk token accepted on %s (token=%s)",
        *(method or "-", name[:8]),
        extra={"statebox_method": method, "statebox_token": name[:8]},
    )


@final
@dataclass(frozen=True, slots=True)
class SDKState:
    """A state out of a token of the SDK's whose every check held; single use takes it for a turn.

    Attributes:
        state: The text that was sealed.
        token_id: 32 hex digits that name the token.
        issued_at: Seconds since 1970.
        expires_at: Seconds since 1970.
        key_id: Of no ring.
        flow: Such a token has none.
        round: Nor one of these.
    """

    state: str = field(repr=False)
    token_id: str
    issued_at: int
    expires_at: int
    key_id: str = SDK_KEY
    flow: None = None
    round: None = None


@final
class SDKTokens:
    """Opens the SDK's tokens for a `StateboxBoundary`, and has the SDK check what they claim.

    Args:
        keys: The old deployment's `keys=`.
        audience: Its `audience=`, or else the name of its server; "" for tokens without one.
        principal: Its `bind_principal=`.
        on_event: Called with `Opened` and `Rejected`; must not raise.

    Raises:
        TypeError, ValueError: Keys that the SDK does not take.
    """

    __slots__ = ("_boundary", "_codec", "_on_event")

    def __init__(
        self, keys: SDKKeys, *, audience: str, principal: SDKPrincipal, on_event: Hook | None
    ) -> None:
        security = RequestStateSecurity(keys=keys, bind_principal=principal)
        self._codec = security.codec
        self._boundary = RequestStateBoundary(security, default_audience=audience or None)
        self._on_event = on_event

    async def open(
        self, ctx: ServerRequestContext[Any, Any], token: str, request: Request
    ) -> SDKState:
        """Open a token.

        Args:
            ctx: The context, as it came, of the request that carries the token as its state.
            token: The token.
            request: That request, for the events.

        Returns:
            The state.

        Raises:
            AuthenticationError: No key opens it.
            ClaimError: The SDK refused it, and has logged the reason.
        """
        try:
            turn = await self._open(ctx, token)
        except OpenError as error:
            if self._on_event is not None:
                self._on_event(report_rejected(error, time.time(), token, request))
            raise
        log_accepted(turn.token_id, ctx.method)
        if self._on_event is not None:
            opened = Opened(
                key_id=turn.key_id,
                token_id=turn.token_id,
                size=len(token),
                age=time.time() - turn.issued_at,
                method=request.method,
                target=request.target,
            )
            self._on_event(opened)
        return turn

    async def _open(self, ctx: ServerRequestContext[Any, Any], token: str) -> SDKState:
        claims = unseal(self._codec, token)
        states: list[str] = []

        async def keep(opened: ServerRequestContext[Any, Any]) -> HandlerResult:
            states.append(cast("dict[str, str]", opened.params)["requestState"])
            return {}  # without a state, so that the SDK seals nothing

        # INVARIANT: each claim is checked by whom it was made for: the SDK's boundary calls what
        # comes next only with a state that it accepts.
        with suppress(MCPError):
            await self._boundary(ctx, keep)
        if not states:
            error = ClaimError(
                "the SDK refuses its token",
                hint="The line of mcp.server.request_state before this one has the reason.",
            )
            error.token_id = sdk_token_id(token)
            raise error
        times: dict[str, float] = json.loads(claims)
        return SDKState(
            states[0], sdk_token_id(token), math.floor(times["iat"]), math.ceil(times["exp"])
        )

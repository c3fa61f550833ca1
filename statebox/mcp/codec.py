"""statebox as the SDK's codec: the SDK keeps its boundary and its checks, statebox the keys.

This is the way for `MCPServer` and, with `statebox.mcp.fastmcp.SealedStateOnly`, for `FastMCP`.
Expiry, request, audience and principal are the SDK's to check here; the token, the keyring and its
rotation are statebox's. A codec's token and a native one share an envelope and not a payload, and
neither opens as the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, final

from mcp.server.context import ServerRequestContext
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateSecurity,
    compact_json,
)
from mcp.server.request_state import authenticated_principal as sdk_principal

from statebox.claims import token_id
from statebox.envelope import IV_BYTES, from_text
from statebox.errors import MalformedTokenError, OpenError
from statebox.events import Hook, Opened, Sealed, safe
from statebox.keyring import Keyring
from statebox.limits import DEFAULT_TTL, require_audience, require_ttl
from statebox.mcp.cutover import SDK_KEY, SDKKeys, is_sdk_token, log_accepted, unseal
from statebox.mcp.opened import OPENED, OpenedState
from statebox.mcp.principal import (
    REQUIRE,
    PrincipalBinding,
    PrincipalOption,
    authenticated_principal,
)
from statebox.mcp.sdk_claims import decode_claims, encode_claims
from statebox.reports import report_rejected
from statebox.sealer import DEFAULT_MAX_TOKEN_CHARS, Sealer
from statebox.sources import Source, open_source


@final
class StateboxCodec:
    """A codec for the SDK's `RequestStateSecurity(codec=...)`.

    On a `FastMCP` it needs `statebox.mcp.fastmcp.SealedStateOnly` beside it.

    Args:
        keyring: The ring, or a live source of one.
        max_token_chars: The longest token to make or to read, in characters.
        clock: Gives the time in seconds since 1970. It decides the roles of the keys and nothing
            else, for every claim is the SDK's.
        on_event: Called with an `Event` for every token sealed, opened or refused here. Here means
            as far as authentication: what the SDK finds in the claims is in the SDK's log alone.
        accept_sdk_keys: The `keys=` of a deployment with the SDK's built-in codec, to be moved off:
            its tokens are opened too. None: they are refused.

    Raises:
        TypeError, ValueError: An argument is of another type, or keys that the SDK does not take.
        KeyringError: The source has no ring to give.
    """

    __slots__ = ("_on_event", "_sdk", "_sealer")

    def __init__(
        self,
        keyring: Keyring | Source,
        *,
        max_token_chars: int = DEFAULT_MAX_TOKEN_CHARS,
        clock: Callable[[], float] = time.time,
        on_event: Hook | None = None,
        accept_sdk_keys: SDKKeys | None = None,
    ) -> None:
        self._sdk = None if accept_sdk_keys is None else AESGCMRequestStateCodec(accept_sdk_keys)
        self._on_event = safe(on_event)
        self._sealer = Sealer(
            keyring, max_token_chars=max_token_chars, clock=clock, on_event=self._on_event
        )

    def seal(self, payload: bytes) -> str:
        """Protect the SDK's claims.

        Args:
            payload: The claims; any other bytes are carried as they are.

        Returns:
            A token.

        Raises:
            SealError: The token would be longer than the cap.
            KeyringError: No key is active.
        """
        token, key_id = self._seal(encode_claims(payload))
        if self._on_event is not None:
            name = token_id(from_text(token))
            self._on_event(Sealed(key_id=key_id, token_id=name, size=len(token)))
        return token

    def unseal(self, token: str) -> bytes:
        """Give back what `seal` was given.

        Args:
            token: Any text.

        Returns:
            The same bytes.

        Raises:
            InvalidRequestState: The token was refused. Its message is the code of the `OpenError`
                that caused it; the SDK logs that and keeps it from the wire.
        """
        try:
            if self._sdk is not None and is_sdk_token(token):
                claims, message, key_id = unseal(self._sdk, token), token.encode(), SDK_KEY
            else:
                claims, message, key_id = self._open(token)
        except OpenError as error:
            if self._on_event is not None:
                self._on_event(report_rejected(error, self._sealer.clock(), token, None))
            # INVARIANT: nothing decrypted can be reached from it, as in Statebox.open.
            error.__context__ = None
            raise InvalidRequestState(error.code) from error.with_traceback(None)
        opened = OpenedState(
            claims,
            message,
            key_id,
            lambda payload: self._seal(encode_claims(payload))[0],
            lambda sealed: self._open(sealed)[0],
        )
        OPENED.set(opened)
        if key_id == SDK_KEY:
            log_accepted(opened.token_id)
        if self._on_event is not None:
            self._on_event(Opened(key_id=key_id, token_id=opened.token_id, size=len(token)))
        return claims

    def _seal(self, payload: bytes) -> tuple[str, str]:
        sealer = self._sealer
        slot = sealer.active(sealer.clock())
        return sealer.seal(slot, payload, os.urandom(IV_BYTES)), slot.key.kid

    def _open(self, token: str) -> tuple[bytes, bytes, str]:
        payload, slot, message = self._sealer.open(token, self._sealer.clock())
        try:
            return decode_claims(payload), message, slot.key.kid
        except ValueError:
            raise MalformedTokenError(
                "the payload holds no claims of the SDK", key_id=slot.key.kid
            ) from None


def request_state_security(
    keyring: Keyring | Source | str | os.PathLike[str],
    *,
    audience: str,
    ttl: float = DEFAULT_TTL,
    principal: PrincipalOption = authenticated_principal,
    max_token_chars: int = DEFAULT_MAX_TOKEN_CHARS,
    clock: Callable[[], float] = time.time,
    on_event: Hook | None = None,
    accept_sdk_keys: SDKKeys | None = None,
) -> RequestStateSecurity:
    """Make the policy that `MCPServer` and `FastMCP` take as `request_state_security=`.

    A `FastMCP` needs a middleware beside it, or a client can hand its handlers a state that nobody
    sealed, which no codec is shown (see `statebox.mcp.fastmcp`):

        FastMCP("billing", request_state_security=request_state_security(...),
                middleware=[SealedStateOnly()])

    Args:
        keyring: A ring; a live source of one; or where one comes from, as `"file:keyring.json"`
            (a bare path is a file).
        audience: The service that the states are for: the same on every replica, another for
            every other service.
        ttl: How long a state can be presented, in seconds; at most the ring's `max_ttl`.
        principal: Who a state is bound to. By default the SDK's authenticated identity, if any;
            a callable `(ctx) -> str | Sequence[str] | None` of yours; `"require"` to refuse a
            round without an authenticated identity; None to bind to nobody.
        max_token_chars: The longest token to make or to read, in characters.
        clock: Gives the time in seconds since 1970, for the roles of the keys. The SDK has a
            clock of its own for the claims.
        on_event: Called with an `Event` for tokens, as for `StateboxCodec`, and for what happens
            to a keyring that is given by its address.
        accept_sdk_keys: The `keys=` of a deployment with the SDK's built-in codec, to be moved off:
            the flows that it began are finished here. The SDK checks its claims and ours alike, so
            `audience` is what it was there (unless one was given, the name of the server), and
            `principal` too (the default is the SDK's).

    Returns:
        The policy.

    Raises:
        TypeError, ValueError: A configuration that cannot work, as a ttl over the ring's `max_ttl`
            or keys that the SDK does not take.
        KeyringError: The keyring cannot be read.
    """
    source = keyring
    if isinstance(source, str | os.PathLike):
        source = open_source(os.fspath(source), on_event=on_event)
    ring = source if isinstance(source, Keyring) else source.current()
    return RequestStateSecurity(
        codec=StateboxCodec(
            source,
            max_token_chars=max_token_chars,
            clock=clock,
            on_event=on_event,
            accept_sdk_keys=accept_sdk_keys,
        ),
        # The SDK has no longest lifetime of its own, and the ring's is what a rotation counts on.
        ttl=require_ttl(ttl, ring),
        audience=require_audience(audience).decode(),
        bind_principal=_bind_principal(principal),
    )


def _bind_principal(
    option: PrincipalOption,
) -> Callable[[ServerRequestContext[Any, Any]], str | None]:
    binding = PrincipalBinding(option)
    by_the_sdk = option is authenticated_principal or option == REQUIRE

    def bind_principal(ctx: ServerRequestContext[Any, Any]) -> str | None:
        principal = binding.find(ctx)
        if principal is None:
            return None
        # The SDK binds to one text. It is the text that the SDK would bind to by itself, so that a
        # deployment can move off its codec; what the SDK does not have is marked by a first NUL.
        if by_the_sdk:
            return sdk_principal(ctx)
        parts = [principal] if isinstance(principal, str) else principal
        if len(parts) == 1 and not parts[0].startswith("\0"):
            return parts[0]
        return f"\0{compact_json(parts)}"

    return bind_principal

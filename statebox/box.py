"""Seal and open: every check of the format's section 6, in its order.

The first five, up to authentication, are `Sealer.open`; the rest are here. No other room knows
the order.
"""

from __future__ import annotations

import hmac
import math
import os
import time
from collections.abc import Callable
from typing import Final, NoReturn, final

from statebox.bindings import Principal, Request
from statebox.cbor import State, UnsupportedValueError, decode_state, encode_state
from statebox.claims import (
    FLOW_BYTES,
    MAX_ROUND,
    TIME_LIMIT,
    Claims,
    Continuation,
    decode_payload,
    encode_payload,
    token_id,
)
from statebox.envelope import IV_BYTES
from statebox.errors import (
    AudienceError,
    ClaimError,
    ExpiredFlowError,
    ExpiredTokenError,
    FutureTokenError,
    MalformedTokenError,
    PrincipalError,
    RequestError,
    SealError,
    TooManyRoundsError,
)
from statebox.keyring import Keyring
from statebox.sealer import DEFAULT_MAX_TOKEN_CHARS, Opened, Sealer
from statebox.sources import Source

DEFAULT_TTL: Final = 600  # seconds
DEFAULT_MAX_FLOW_AGE: Final = 3600  # seconds
DEFAULT_MAX_ROUNDS: Final = 32
DEFAULT_LEEWAY: Final = 60  # seconds
_LONGEST: Final = 366 * 86400  # seconds


@final
class Statebox:
    """Seals continuations into tokens, and opens them again when every check holds.

    Safe to share between threads and tasks. `seal` and `open` do no I/O beyond a look at a live
    source.

    Args:
        keyring: A `Keyring`, or a live source of one (see `from_source`).
        audience: The name of this service; the same on all its replicas, unlike all others.
        ttl: How long a token lives, in seconds; at most the ring's `max_ttl`.
        max_flow_age: How long a whole flow may take, in seconds, over all its rounds.
        max_rounds: How many rounds a flow may have.
        leeway: How far a token's iat may lie ahead of this clock, in seconds.
        max_token_chars: The longest token to make or to read, in characters.
        clock: Gives the time in seconds since 1970.

    Raises:
        TypeError, ValueError: A configuration that cannot work.
        KeyringError: The source has no ring to give.
    """

    __slots__ = (
        "_audience",
        "_leeway",
        "_max_flow_age",
        "_max_rounds",
        "_sealer",
        "_ttl",
    )

    def __init__(
        self,
        keyring: Keyring | Source,
        *,
        audience: str,
        ttl: float = DEFAULT_TTL,
        max_flow_age: float = DEFAULT_MAX_FLOW_AGE,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        leeway: float = DEFAULT_LEEWAY,
        max_token_chars: int = DEFAULT_MAX_TOKEN_CHARS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._audience = require_audience(audience)
        self._sealer = Sealer(keyring, max_token_chars=max_token_chars, clock=clock)
        self._ttl = require_ttl(ttl, self._sealer.ring())
        self._max_flow_age = _seconds("max_flow_age", max_flow_age, least=1)
        self._leeway = _seconds("leeway", leeway, least=0)
        if type(max_rounds) is not int or not 1 <= max_rounds <= MAX_ROUND:
            raise ValueError(f"max_rounds is a whole number from 1 to {MAX_ROUND}")
        self._max_rounds = max_rounds

    @property
    def audience(self) -> str:
        """The name of this service."""
        return self._audience.decode()

    def seal(
        self,
        state: State,
        *,
        principal: Principal | None,
        request: Request | None,
        after: Continuation | None = None,
    ) -> str:
        """Seal a state into a token that only this principal can present, with this request.

        Args:
            state: null, bool, int, float, str, bytes, list, or dict with text or integer keys,
                at most 64 levels deep.
            principal: Who may present the token: one text, or several parts such as
                (issuer, subject, client_id). None binds it to nobody, and then only a presenter
                without a principal opens it.
            request: The request it belongs to; None binds it to no request.
            after: The continuation that this one follows: same flow and deadline, next round.

        Returns:
            The token: text of `A-Z a-z 0-9 . _ -`, safe in URLs, headers and JSON.

        Raises:
            SealError: `unsupported_state`, `too_large`, `too_many_rounds` or `flow_expired`.
            KeyringError: The ring has no active key now.
            TypeError, ValueError: The principal or the request is of no such kind, or empty.
        """
        sealer = self._sealer
        now = sealer.clock()
        slot = sealer.active(now)
        fresh = os.urandom(IV_BYTES + FLOW_BYTES)
        issued_at = int(now)
        if after is None:
            flow, round_ = fresh[IV_BYTES:], 1
            deadline = issued_at + self._max_flow_age
        else:
            flow, round_ = bytes.fromhex(after.flow), after.round + 1
            deadline = after.deadline
            self._require_open_flow(round_, deadline, now)
        if not 0 <= issued_at <= deadline < TIME_LIMIT:
            raise ValueError("the clock gives no time in seconds since 1970")
        claims = Claims(
            self._audience,
            min(issued_at + self._ttl, deadline),
            issued_at,
            flow,
            round_,
            deadline,
            None if principal is None else slot.principal_tag(_named(principal)),
            None if request is None else _request_cbor(request),
            _state_cbor(state),
        )
        return sealer.seal(slot, encode_payload(claims), fresh[:IV_BYTES])

    def open(
        self, token: str, *, principal: Principal | None, request: Request | None
    ) -> Continuation:
        """Open a token, if it is authentic and meant for here, now, this principal and request.

        Args:
            token: Any text.
            principal: Who presents it; None: nobody known.
            request: The request it came with; None: none.

        Returns:
            The continuation. Nothing of a token that fails is returned or put on the error.

        Raises:
            OpenError: The first check that failed, in the order of the format's section 6.
            TypeError: The principal or the request is of no such kind.
        """
        now = self._sealer.clock()
        opened = self._sealer.open(token, now)  # 1 to 5
        # 6: the shape, the state included, so that a token is never half trusted.
        try:
            claims = decode_payload(opened.payload)
            state = decode_state(claims.state)
        except ValueError:
            error = MalformedTokenError(
                "the payload is not of the one allowed shape", key_id=opened.slot.key.kid
            )
            error.token_id = token_id(opened.message)
            raise error from None
        # 7
        if claims.audience != self._audience:
            _refuse(AudienceError("sealed for another audience"), claims, opened)
        # 8
        if claims.issued_at > now + self._leeway:
            ahead = math.ceil(claims.issued_at - now)
            _refuse(FutureTokenError(f"issued {ahead} s ahead of this clock"), claims, opened)
        if now >= claims.expires_at:
            late = int(now - claims.expires_at)
            _refuse(ExpiredTokenError(f"expired {late} s ago"), claims, opened)
        if now >= claims.deadline:
            late = int(now - claims.deadline)
            _refuse(ExpiredFlowError(f"the flow ended {late} s ago"), claims, opened)
        # 9
        if claims.round > self._max_rounds:
            _refuse(TooManyRoundsError(f"round {claims.round} of a flow"), claims, opened)
        # 10 and 11. INVARIANT: compared in constant time, as bytes of one length.
        presented = None if principal is None else opened.slot.principal_tag(principal)
        if not _same(claims.principal, presented):
            _refuse(
                PrincipalError(_drift("principal", claims.principal, presented)), claims, opened
            )
        presented = None if request is None else _request_cbor(request)
        if not _same(claims.request, presented):
            _refuse(RequestError(_drift("request", claims.request, presented)), claims, opened)
        return Continuation(claims, state, opened.slot.key.kid, opened.message)

    def _require_open_flow(self, round_: int, deadline: int, now: float) -> None:
        if round_ > self._max_rounds:
            raise SealError(
                "too_many_rounds",
                f"this would be round {round_} of a flow, the cap is {self._max_rounds}",
                hint="Look for a handler that asks without end, or raise max_rounds.",
            )
        if now >= deadline:
            raise SealError(
                "flow_expired",
                f"the flow ended {int(now - deadline)} s ago",
                hint="Start the flow again, or raise max_flow_age.",
            )


def require_audience(audience: str) -> bytes:
    """Check the name of a service, and encode it.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty, or not Unicode.
    """
    if type(audience) is not str:
        raise TypeError("audience is text: the name of this service")
    if not audience:
        raise ValueError("audience is empty; name this service, the same on all its replicas")
    return audience.encode()


def require_ttl(ttl: float, ring: Keyring) -> int:
    """Check a lifetime in seconds against a ring.

    Raises:
        ValueError: It is not finite, below one second, or longer than the ring's `max_ttl`.
    """
    seconds = _seconds("ttl", ttl, least=1)
    if seconds > ring.max_ttl:
        raise ValueError(
            f"ttl {seconds} s is over the keyring's max_ttl of {ring.max_ttl} s: "
            "a rotation would drop an old key while its tokens live"
        )
    return seconds


def _seconds(name: str, value: float, *, least: int) -> int:
    if type(value) is not int and type(value) is not float:
        raise TypeError(f"{name} is a number of seconds")
    if not least <= value <= _LONGEST:  # false for NaN
        raise ValueError(f"{name} is a number of seconds from {least} to {_LONGEST}")
    return int(value)


def _named(principal: Principal) -> Principal:
    # An empty name is a user id that is missing by mistake; all of those would be one user.
    if not principal or not any(principal):
        raise ValueError("the principal is empty; pass None to bind to nobody")
    return principal


def _request_cbor(request: Request) -> bytes:
    if type(request) is not Request:
        raise TypeError("request is a statebox.Request, or None")
    return request.cbor


def _state_cbor(state: State) -> bytes:
    try:
        return encode_state(state)
    except UnsupportedValueError as error:
        raise SealError(
            "unsupported_state", f"{error.path} is {error.problem}", path=error.path
        ) from None


def _same(sealed: bytes | None, presented: bytes | None) -> bool:
    if sealed is None or presented is None:
        return sealed is presented
    return hmac.compare_digest(sealed, presented)


def _drift(what: str, sealed: bytes | None, presented: bytes | None) -> str:
    if sealed is None:
        return f"bound to no {what}, and one was presented"
    if presented is None:
        return f"bound to a {what}, and none was presented"
    return f"bound to another {what}"


def _refuse(error: ClaimError, claims: Claims, opened: Opened) -> NoReturn:
    error.key_id = opened.slot.key.kid
    error.token_id = token_id(opened.message)
    error.flow = claims.flow.hex()
    error.round = claims.round
    error.issued_at = claims.issued_at
    error.expires_at = claims.expires_at
    raise error

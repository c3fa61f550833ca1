"""Seal and open: what a user of the library holds in hands.

The order of the checks is the format's section 6: 1 to 5 are `Sealer.open`, 6 to 11 are `check`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, final

from statebox.bindings import Principal, Request, somebody
from statebox.checks import check, request_cbor, require_open_flow
from statebox.claims import FLOW_BYTES, TIME_LIMIT, Layout
from statebox.continuation import Continuation
from statebox.envelope import IV_BYTES
from statebox.errors import KeyringError, OpenError, SealError, leaving_no_frames
from statebox.keyring import Keyring
from statebox.limits import (
    DEFAULT_LEEWAY,
    DEFAULT_MAX_FLOW_AGE,
    DEFAULT_MAX_ROUNDS,
    DEFAULT_TTL,
    Options,
    require_audience,
    require_rounds,
    require_ttl,
    seconds,
)
from statebox.sealer import DEFAULT_MAX_TOKEN_CHARS, Sealer
from statebox.state import Sealable, UnsupportedValueError, encode_state

# Imported where they are used: a server that has a ring and no hook starts without them.
if TYPE_CHECKING:
    from statebox.events import Hook
    from statebox.sources import Source


_Failed = TypeVar("_Failed", bound=SealError | KeyringError)


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
        on_event: Called with an `Event` for every token sealed, opened or refused; see
            `statebox.events`. What it raises is logged and goes no further.

    Raises:
        TypeError, ValueError: A configuration that cannot work.
        KeyringError: The source has no ring to give.
    """

    __slots__ = (
        "_layout",
        "_leeway",
        "_max_flow_age",
        "_max_rounds",
        "_on_event",
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
        on_event: Hook | None = None,
    ) -> None:
        self._layout = Layout(require_audience(audience))
        self._on_event: Hook | None = None
        if on_event is not None:
            from statebox.events import safe

            self._on_event = safe(on_event)
        self._sealer = Sealer(
            keyring, max_token_chars=max_token_chars, clock=clock, on_event=self._on_event
        )
        self._ttl = require_ttl(ttl, self._sealer.ring())
        self._max_flow_age = seconds("max_flow_age", max_flow_age, least=1)
        self._leeway = seconds("leeway", leeway, least=0)
        self._max_rounds = require_rounds(max_rounds)

    @classmethod
    @leaving_no_frames
    def from_source(
        cls,
        source: str | os.PathLike[str],
        *,
        audience: str,
        on_event: Hook | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Make a box whose ring follows the place it is read from, without a restart.

        Args:
            source: `file:PATH`, a bare path, `env:NAME`, `cmd:COMMAND...` or `redis://...`.
            audience: The name of this service; the same on all its replicas, unlike all others.
            on_event: As for the class; called for the keyring's changes and failures as well.
            options: Everything else that the class takes.

        Returns:
            The box. A source that fails later leaves it the last good ring.

        Raises:
            TypeError, ValueError: A configuration that cannot work.
            KeyringError: There is no usable ring now.
        """
        from statebox.sources import open_source

        ring = open_source(os.fspath(source), on_event=on_event)
        return cls(ring, audience=audience, on_event=on_event, **options)

    def sibling(self, purpose: str) -> Statebox:
        """Make a box over the same keys for something other than states, as for kept answers.

        Args:
            purpose: What for, in a word.

        Returns:
            A box whose tokens this one never opens, nor the reverse, and whose events nobody gets.
        """
        from copy import copy

        other = copy(self)
        other._layout = Layout(self._layout.audience + b"\0" + purpose.encode())  # noqa: SLF001 - of this class
        other._on_event = None  # noqa: SLF001
        return other

    @property
    def audience(self) -> str:
        """The name of this service."""
        return self._layout.audience.decode()

    @property
    def on_event(self) -> Hook | None:
        """The hook that gets this box's events, wrapped so that it raises nothing; or None."""
        return self._on_event

    @property
    def clock(self) -> Callable[[], float]:
        """What gives the time in seconds since 1970."""
        return self._sealer.clock

    def require_ttl(self, ttl: float) -> int:
        """Check a lifetime in seconds against the ring in use now.

        Raises:
            TypeError, ValueError: It is no number, below one second, or over the `max_ttl`.
        """
        return require_ttl(ttl, self._sealer.ring())

    def seal(
        self,
        state: Sealable,
        *,
        principal: Principal | None,
        request: Request | None,
        after: Continuation | None = None,
        ttl: float | None = None,
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
            ttl: How long this token lives, in seconds, if not as long as the box's others.

        Returns:
            The token: text of `A-Z a-z 0-9 . _ -`, safe in URLs, headers and JSON.

        Raises:
            SealError: `unsupported_state`, `too_large`, `too_many_rounds` or `flow_expired`.
            KeyringError: The ring has no active key now.
            TypeError, ValueError: The principal or the request is of no such kind, or empty; the
                ttl is impossible, or over the ring's `max_ttl`.
        """
        try:
            return self._seal(state, principal, request, after, ttl)
        except UnsupportedValueError as found:
            path, problem = found.path, found.problem
        except (SealError, KeyringError) as error:
            self._report(error, after, request)
            raise
        # Raised where nothing is handled, so that the state does not hang on it by its context; and
        # kept in no variable, so that this frame and it do not keep each other.
        raise self._report(
            SealError("unsupported_state", f"{path} is {problem}", path=path), after, request
        )

    def _seal(
        self,
        state: Sealable,
        principal: Principal | None,
        request: Request | None,
        after: Continuation | None,
        ttl: float | None,
    ) -> str:
        if after is not None:
            if type(after) is not Continuation:
                raise TypeError("after is a Continuation, as open() gave it")
            if after.audience != self.audience:
                raise ValueError("after is a Continuation of another service")
        sealer = self._sealer
        now = sealer.clock()
        if not 0 <= now < TIME_LIMIT - self._max_flow_age:  # true for NaN
            raise ValueError("the clock gives no time in seconds since 1970")
        slot = sealer.active(now)
        fresh = os.urandom(IV_BYTES + FLOW_BYTES)
        issued_at = int(now)
        if after is None:
            flow, round_ = fresh[IV_BYTES:], 1
            deadline = issued_at + self._max_flow_age
        else:
            flow, round_ = bytes.fromhex(after.flow), after.round + 1
            deadline = after.deadline
            require_open_flow(round_, deadline, now, self._max_rounds)
        lifetime = self._ttl if ttl is None else self.require_ttl(ttl)
        # INVARIANT: no token outlives its flow, its key, or what a rotation waits for.
        if lifetime > slot.max_ttl:  # noqa: PLR1730 - min() takes five times as long
            lifetime = slot.max_ttl
        expires_at = issued_at + lifetime
        if expires_at > deadline:  # noqa: PLR1730
            expires_at = deadline
        if slot.ends < expires_at:
            expires_at = int(slot.ends)
        payload = self._layout.encode(
            expires_at,
            issued_at,
            flow,
            round_,
            deadline,
            None if principal is None else slot.principal_tag(somebody(principal)),
            None if request is None else request_cbor(request),
            encode_state(state),
        )
        token = sealer.seal(slot, payload, fresh[:IV_BYTES])
        if self._on_event is not None:
            from statebox.reports import report_sealed

            self._on_event(report_sealed(token, slot.key.kid, flow, round_, request))
        return token

    def _report(
        self, error: _Failed, after: Continuation | None, request: Request | None
    ) -> _Failed:
        if self._on_event is not None:
            from statebox.reports import report_seal_failed

            self._on_event(report_seal_failed(error, after, request))
        return error

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
        try:
            turn = check(  # 6 to 11
                self._sealer.open(token, now),  # 1 to 5
                now,
                self._layout,
                self._leeway,
                self._max_rounds,
                principal,
                request,
            )
        except KeyringError:  # a source's own, before anything was decrypted
            raise
        except Exception as error:
            # INVARIANT: nothing decrypted can be reached from it: the frames below hold the state.
            error.__context__ = error.__traceback__ = None
            if self._on_event is not None and isinstance(error, OpenError):
                from statebox.reports import report_rejected

                self._on_event(report_rejected(error, now, token, request))
            raise error from None
        if self._on_event is not None:
            from statebox.reports import report_opened

            self._on_event(report_opened(turn, now, token, request))
        return turn

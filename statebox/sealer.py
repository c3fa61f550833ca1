"""From a token to an authenticated payload, and back: steps 1 to 5 of the format's section 6.

Every kind of payload passes here, statebox's own and the SDK's, so there is one way through.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, final

from cryptography.hazmat.primitives.hmac import HMAC

from statebox.bindings import Principal, principal_mac, principal_tag
from statebox.envelope import (
    Envelope,
    from_text,
    protected_header,
    protected_of,
    start,
    start_of,
    to_text,
)
from statebox.errors import (
    AuthenticationError,
    ExpiredKeyError,
    KeyringError,
    MalformedTokenError,
    RevokedKeyError,
    SealError,
    TokenTooLargeError,
    UnknownKeyError,
)
from statebox.keyring import Keyring
from statebox.keys import A256GCM, Key

# Imported where they are used: a server that has a ring and no hook starts without them.
if TYPE_CHECKING:
    from statebox.events import Hook
    from statebox.sources import Source

_TEXT: Final = frozenset({str})
_MALFORMED: Final = "the text is not a token of this format"

DEFAULT_MAX_TOKEN_CHARS: Final = 65536
# SP 800-38D §8.3: with random ivs, a key seals at most 2^32 times. Each process of a fleet counts for
# itself alone, so it speaks up early.
MAX_USES: Final = 1 << 32
WEARING: Final = 1 << 31
_TAGS_KEPT: Final = 1024  # principals whose tag is remembered, for each key ...
_LONGEST_KEPT: Final = 256  # ... and the characters of the longest
_SMALLEST_CAP: Final = 256  # characters; a bound token of the smallest state has about 180


@final
class Slot:
    """A key of the ring with what is derived from it, derived at its first use."""

    __slots__ = ("_principal", "_tags", "alarm", "ends", "envelope", "key", "max_ttl", "uses")

    def __init__(self, key: Key, max_ttl: int) -> None:
        self.key = key
        self.max_ttl = max_ttl
        # How often it sealed, at least: threads that seal at once may be counted as one.
        self.uses = 0
        self.alarm = WEARING if key.alg == A256GCM else math.inf
        # From when it opens nothing, in seconds since 1970; a revoked key: never did.
        self.ends = -math.inf if key.revoked else math.inf if key.exp is None else key.exp
        self.envelope: Envelope | None = None
        self._principal: HMAC | None = None
        self._tags: dict[Principal, bytes] = {}

    def derive(self) -> Envelope:
        """Derive the key's envelope, and keep it."""
        key = self.key
        self.envelope = Envelope(key.kid, key.alg, key.derive(key.alg))
        return self.envelope

    def principal_tag(self, principal: Principal) -> bytes:
        """Hash a principal under this key."""
        # INVARIANT: kept and compared are texts and tuples of texts alone. They cannot change, and
        # no __eq__ of a subclass makes one user of two.
        plain = type(principal) is str or _is_tuple_of_texts(principal)
        if plain:
            tag = self._tags.get(principal)
            if tag is not None:
                return tag
        if self._principal is None:
            self._principal = principal_mac(self.key)
        tag = principal_tag(self._principal, principal)
        if plain and sum(map(len, principal)) <= _LONGEST_KEPT:
            if len(self._tags) >= _TAGS_KEPT:
                self._tags.clear()
            self._tags[principal] = tag
        return tag


Opened: TypeAlias = tuple[bytes, Slot, bytes]
"""An authenticated payload, the key that sealed it, and the message it came in."""


@final
class _Table:
    """A ring, laid out for look-ups; replaced as a whole when the source gives another ring."""

    __slots__ = ("active", "headers", "mixed", "ring", "slots", "width")

    def __init__(self, ring: Keyring, former: dict[bytes, Slot] | None = None) -> None:
        self.ring = ring
        self.slots = {_start(key): Slot(key, ring.max_ttl) for key in ring}
        self.headers = {protected_header(key.kid, key.alg) for key in ring}
        # The starts of most rings have one length, so that it need not be read from each token.
        widths = set(map(len, self.slots))
        self.width, self.mixed = max(widths), len(widths) > 1
        for name, slot in self.slots.items():
            old = former.get(name) if former else None
            if old and old.key.same_secret(slot.key):
                slot.uses, slot.alarm = old.uses, old.alarm
        self.active: tuple[float, float, Slot | None] = (0.0, 0.0, None)

    def find_active(self, now: float) -> Slot:
        slot = self.slots[_start(self.ring.active(now))]
        self.active = (now, self.ring.next_change(now), slot)
        return slot


@final
class Sealer:
    """Seals payloads and opens them up to authentication: steps 1 to 5 of the format's section 6.

    Args:
        keyring: The ring, or a live source of one.
        max_token_chars: The longest token to make or to read, in characters.
        clock: Gives the time in seconds since 1970.
        on_event: Called with a `KeyWearing` when a key is to be replaced.

    Raises:
        TypeError: The keyring is neither.
        ValueError: The cap is too small for any token.
        KeyringError: The source has no ring to give.
    """

    __slots__ = ("_max_chars", "_on_event", "_source", "_table", "clock")

    def __init__(
        self,
        keyring: Keyring | Source,
        *,
        max_token_chars: int = DEFAULT_MAX_TOKEN_CHARS,
        clock: Callable[[], float] = time.time,
        on_event: Hook | None = None,
    ) -> None:
        if type(max_token_chars) is not int or max_token_chars < _SMALLEST_CAP:
            raise ValueError(f"max_token_chars is a whole number of at least {_SMALLEST_CAP}")
        self._source: Source | None = None
        if not isinstance(keyring, Keyring):
            if not (hasattr(keyring, "current") and hasattr(keyring, "reread")):
                raise TypeError("keyring is a Keyring or a live source; for a path: from_source()")
            self._source = keyring
            keyring = keyring.current()
        self._max_chars = max_token_chars
        self._table = _Table(keyring)
        self._on_event = on_event
        self.clock = clock

    def ring(self) -> Keyring:
        """Give the ring in use now."""
        return self._table.ring if self._source is None else self._source.current()

    def active(self, now: float) -> Slot:
        """Give the key that seals at a time.

        Raises:
            KeyringError: The ring has no active key.
        """
        # Read once: another thread may put the table of an older ring there in between.
        table = self._table
        if self._source is not None and (ring := self._source.current()) is not table.ring:
            table = self._replace(ring)
        # Roles only change at a date in the ring, so an answer holds until the next one. It is
        # one tuple, so that a thread never reads the dates of one answer with the key of another.
        since, until, slot = table.active
        if slot is not None and since <= now < until:
            return slot
        return table.find_active(now)

    def seal(self, slot: Slot, payload: bytes, iv: bytes) -> str:
        """Make a token of a payload.

        Args:
            slot: The active key.
            payload: The bytes to protect.
            iv: 12 fresh random bytes.

        Returns:
            The token.

        Raises:
            SealError: `too_large`: the token would be longer than the cap.
            KeyringError: The key has sealed as much as AES-GCM allows.
        """
        slot.uses += 1
        if slot.uses >= slot.alarm:
            self._wear(slot)
        token = to_text((slot.envelope or slot.derive()).seal(payload, iv))
        # INVARIANT: nothing is sealed that this configuration would not open.
        if len(token) > self._max_chars:
            raise SealError(
                "too_large",
                f"the token would have {len(token)} characters, the cap is {self._max_chars}",
                hint="Keep large data on the server and seal its id, or raise max_token_chars.",
            )
        return token

    def open(self, token: object, now: float) -> Opened:
        """Open a token as far as its authentication; no claim is looked at.

        Args:
            token: Any text.
            now: Seconds since 1970.

        Returns:
            The payload, with the key that sealed it.

        Raises:
            TokenTooLargeError, MalformedTokenError, UnknownKeyError, RevokedKeyError,
            ExpiredKeyError, AuthenticationError: See each; the first that fails, in this order.
        """
        # 1: the length, before anything is decoded.
        if not isinstance(token, str):
            raise MalformedTokenError("the token is not text")
        if len(token) > self._max_chars:
            raise TokenTooLargeError(
                f"the token has {len(token)} characters, the cap is {self._max_chars}"
            )
        table = self._table
        if self._source is not None and (ring := self._source.current()) is not table.ring:
            table = self._replace(ring)
        # 2 and 3: the text form, the header, the frame.
        try:
            message = from_text(token)
        except ValueError:
            raise MalformedTokenError(_MALFORMED) from None
        # INVARIANT: the algorithm is the key's, never the token's (RFC 8725 §3.1): the bytes that
        # are looked up name both, and only a key of that algorithm has them.
        slot = table.slots.get(message[: table.width]) or self._find(message, table)
        # 4: the key, after the rest of its token's frame.
        if not now < slot.ends:  # true for NaN
            _header_of(message)
            self._refuse_key(slot.key)
        # 3 for all others, and 5: nothing of the payload is used or reported before it.
        try:
            payload = (slot.envelope or slot.derive()).open(message)
        except ValueError:
            raise MalformedTokenError(_MALFORMED) from None
        if payload is None:
            raise AuthenticationError("the token's tag does not match", key_id=slot.key.kid)
        return payload, slot, message

    def _replace(self, ring: Keyring) -> _Table:
        self._table = table = _Table(ring, self._table.slots)
        return table

    def _wear(self, slot: Slot) -> None:
        kid = slot.key.kid
        # INVARIANT: beyond this, two tokens with one iv are likely enough to lose the key.
        if slot.uses > MAX_USES:
            raise KeyringError(
                f"key {kid} has sealed {MAX_USES} tokens, the most that AES-GCM allows",
                hint="Run `statebox keys rotate`: a new key seals from then on.",
            )
        import logging

        from statebox.events import KeyWearing

        slot.alarm = MAX_USES + 1
        logger = logging.getLogger("statebox.sealer")
        logger.warning("key %s has sealed %d tokens of %d; rotate it", kid, slot.uses, MAX_USES)
        if self._on_event is not None:
            self._on_event(KeyWearing(key_id=kid, uses=slot.uses, limit=MAX_USES))

    def _refuse_key(self, key: Key) -> NoReturn:
        if key.revoked is not None:
            raise RevokedKeyError("the token's key was revoked", key_id=key.kid)
        raise ExpiredKeyError("the token's key has expired", key_id=key.kid)

    def _find(self, message: bytes, table: _Table) -> Slot:
        slot = table.slots.get(start_of(message)) if table.mixed else None
        if slot is not None:
            return slot
        # The frame and its header contradict each other where a key of the other algorithm has it.
        if _header_of(message) in table.headers:
            raise MalformedTokenError(_MALFORMED)
        # Another replica may seal already under a key that this one has not read yet.
        if self._source is not None:
            ring = self._source.reread()
            table = self._table if self._table.ring is ring else self._replace(ring)
            slot = table.slots.get(start_of(message))
            if slot is not None:
                return slot
        raise UnknownKeyError("the ring has no key under the token's header")


def _header_of(message: bytes) -> bytes:
    try:
        return protected_of(message)
    except ValueError:
        raise MalformedTokenError(_MALFORMED) from None


def _is_tuple_of_texts(principal: Principal) -> bool:
    return type(principal) is tuple and _TEXT.issuperset(map(type, principal))  # pyright: ignore[reportUnknownArgumentType]


def _start(key: Key) -> bytes:
    return start(protected_header(key.kid, key.alg), encrypted=key.alg == A256GCM)

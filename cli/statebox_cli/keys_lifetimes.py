"""Which key seals when, and until when what it sealed can be alive: pure functions of a ring.

One rule holds throughout: a key that stops sealing at T opens until T + max_ttl + leeway, because
until then a token that it sealed can be alive on a replica whose clock is behind.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from statebox.errors import KeyringError
from statebox.keyring import Keyring
from statebox.keys import Key
from statebox.limits import DEFAULT_LEEWAY

LEEWAY: Final = DEFAULT_LEEWAY  # seconds by which the clocks of two replicas may differ


class Span(NamedTuple):
    """A length of time during which one key seals.

    Attributes:
        start: Seconds since 1970.
        end: Seconds since 1970; infinity while no date ends it.
        kid: The key; None: the ring has no active key then.
    """

    start: float
    end: float
    kid: str | None


class Loss(NamedTuple):
    """Tokens that are alive, and that a change would reject.

    Attributes:
        key: The key that sealed them.
        until: When the last of them has expired, in seconds since 1970.
    """

    key: Key
    until: float


@lru_cache(maxsize=4)  # asked for every key of a ring again
def spans(ring: Keyring) -> tuple[Span, ...]:
    """Tell which key seals when, by the dates that the ring has now.

    A key that is revoked counts as never there: those before it are then thought to have sealed
    for longer than they did, so what follows from it errs on the side of waiting.
    """
    dates = sorted({key.nbf for key in ring} | {key.exp for key in ring if key.exp is not None})
    ends = [*dates[1:], math.inf]
    sealing = (active(ring, start) for start in dates)
    kids = (None if key is None else key.kid for key in sealing)
    return tuple(map(Span, dates, ends, kids))


@lru_cache(maxsize=4)
def reigns(ring: Keyring) -> tuple[Span, ...]:
    """Tell which key sealed when and will, by what is known of the past as well.

    `spans` goes by the dates that replicas seal by, this by what happened: a key that was revoked
    had sealed until then, and one whose nbf lies up to a minute before its iat, for clocks that
    are behind, did not seal before it was made.
    """

    def seals(moment: float) -> str | None:
        begun = [key for key in ring if _began(key) <= moment < _stopped(key)]
        return begun[-1].kid if begun else None

    dates = sorted({_began(key) for key in ring} | {_stopped(key) for key in ring} - {math.inf})
    return tuple(map(Span, dates, [*dates[1:], math.inf], map(seals, dates)))


def _began(key: Key) -> float:
    backdated = key.iat is not None and key.nbf < key.iat <= key.nbf + LEEWAY
    return key.nbf if key.iat is None or not backdated else key.iat


def _stopped(key: Key) -> float:
    return end_of(key) if key.revoked is None else min(end_of(key), key.revoked.revoked_at)


def active(ring: Keyring, now: float) -> Key | None:
    """Find the key that seals at a time, or None."""
    try:
        return ring.active(now)
    except KeyringError:
        return None


def sealing(ring: Keyring, key: Key) -> tuple[float, float] | None:
    """Tell from when and until when a key seals: infinity for no end, None for not at all."""
    own = [span for span in spans(ring) if span.kid == key.kid]
    if not own:
        return None
    told = [span.end for span in reigns(ring) if span.kid == key.kid]
    return own[0].start, told[-1] if told else own[-1].end


def live_until(ring: Keyring, key: Key, now: float) -> float | None:
    """Tell until when a token that this key sealed can be alive.

    Args:
        ring: The ring.
        key: A key of it.
        now: Seconds since 1970.

    Returns:
        Seconds since 1970, after now; None if no such token opens any more, or none was sealed.
    """
    if ring.role(key, now) in ("revoked", "expired"):
        return None
    # On a replica whose clock is ahead, a pending key has perhaps begun.
    sealed = [
        min(span.end, now)
        for span in (*spans(ring), *reigns(ring))
        if span.kid == key.kid and span.start <= now + LEEWAY
    ]
    until = max(sealed, default=-math.inf) + ring.max_ttl + LEEWAY
    return until if until > now else None


def losses(before: Keyring, after: Keyring, now: float) -> list[Loss]:
    """Tell which tokens can be alive under one ring and would be rejected under the other.

    Args:
        before: The ring as it is.
        after: The ring as it would be.
        now: Seconds since 1970.

    Returns:
        What would be lost, the longest-lived last.
    """
    lost: list[Loss] = []
    for key in before:
        until = live_until(before, key, now)
        if until is None:
            continue
        until = min(until, end_of(key))  # not the change's fault
        if _opens_until(after, key) < until:
            lost.append(Loss(key, until))
    return sorted(lost, key=lambda loss: loss.until)


def outage(before: Keyring, after: Keyring, now: float) -> bool:
    """Tell whether on some replica no key that is meant to seal would seal under the new ring.

    Its clock may be behind, and a key that begins now has not begun there. Then the one before it
    must seal still: not none, and not one that was taken over from long ago.

    Args:
        before: The ring as it is.
        after: The ring as it would be.
        now: Seconds since 1970.
    """
    clocks = (now - LEEWAY, now, now + LEEWAY)
    sealed = {key.kid for clock in clocks if (key := active(before, clock))}
    meant = active(after, now)
    for clock in clocks:
        key = active(after, clock)
        if key is None and active(before, clock) is not None:
            return True
        # One that begins after now is meant to: it takes over, only not in this very second.
        comes_back = key is not None and key.nbf <= now and key is not meant
        if key is not None and comes_back and before.get(key.kid) and key.kid not in sealed:
            return True
    return False


def lagging(ring: Keyring, now: float) -> tuple[Key, float] | None:
    """Tell by the dates of what has been done that a clock is behind.

    Args:
        ring: The ring.
        now: Seconds since 1970, by that clock.

    Returns:
        The key that was made or revoked the furthest after now, and when; None if the clock is
        right, as far as the ring can tell.
    """
    done = [
        (moment, key)
        for key in ring
        for moment in (key.iat, key.revoked and key.revoked.revoked_at)
        if moment is not None and moment > now + LEEWAY
    ]
    moment, key = max(done, key=lambda one: one[0], default=(0, None))
    return None if key is None else (key, moment)


def _opens_until(ring: Keyring, key: Key) -> float:
    kept = ring.get(key.kid)
    same = kept is not None and kept.alg == key.alg and kept.same_secret(key)
    if kept is None or not same or kept.revoked is not None:
        return -math.inf
    return end_of(kept)


def end_of(key: Key) -> float:
    """Give a key's exp, or infinity."""
    return math.inf if key.exp is None else key.exp

"""What becomes of a ring when a key comes or goes: pure functions of a ring and a time.

Keys take over from one another in the order of their nbf. Whoever is taken over from gets an exp
that no live token sees: the other one's nbf + max_ttl + leeway.
"""

from __future__ import annotations

from collections.abc import Iterable

from statebox.jwk import key_from_jwk
from statebox.keyring import Keyring
from statebox.keys import Key, Revocation
from statebox_cli.keys_lifetimes import LEEWAY, end_of


def rotated(ring: Keyring, now: float, *, activate_in: int, alg: str | None = None) -> Keyring:
    """Add a fresh key that takes over later, and date the one that it takes over from.

    Args:
        ring: The ring.
        now: Seconds since 1970.
        activate_in: Seconds from now until it seals: time enough for every replica to read it.
        alg: Its algorithm; default: that of the last key.

    Returns:
        The new ring.
    """
    last = [key for key in ring if key.revoked is None] or list(ring)
    nbf = free_start(ring, int(now) + activate_in)
    kids = {key.kid for key in ring}
    fresh = Key.generate(alg or last[-1].alg, now=now, nbf=nbf, taken=kids)
    return placed(ring, fresh, now)


def free_start(keys: Iterable[Key], nbf: int) -> int:
    """Find the first second from *nbf* on in which no key begins: two with one nbf are no ring."""
    taken = {key.nbf for key in keys}
    while nbf in taken:
        nbf += 1
    return nbf


def placed(ring: Keyring, key: Key, now: float) -> Keyring:
    """Put a key among the others by its nbf, and date whom it takes over from.

    Args:
        ring: The ring, without the key.
        key: The key. It gets an exp only if another one takes over from it.
        now: Seconds since 1970.

    Returns:
        The new ring.

    Raises:
        KeyringError: The ring has its kid, nbf or secret already.
    """
    end = key.nbf + ring.max_ttl + LEEWAY
    predecessor = _predecessor(ring, key, now)
    keys = [
        # One without an end would never get out of the ring, so it gets one as well.
        other.replace(exp=end)
        if other is predecessor
        or (other.nbf < key.nbf and other.exp is None and other.revoked is None)
        else other
        for other in ring
    ]
    return Keyring([*keys, _handing_over(ring, key)], max_ttl=ring.max_ttl)


def without(ring: Keyring, key: Key, now: float) -> Keyring:
    """Take a key out. If it had not taken over yet, its predecessor seals on, and is dated so.

    Raises:
        KeyringError: It is the only key.
    """
    rest = Keyring([other for other in ring if other is not key], max_ttl=ring.max_ttl)
    predecessor = _predecessor(ring, key, now) if key.nbf > now else None
    if predecessor is None:
        return rest
    dated = _handing_over(rest, _without_end(predecessor))
    keys = [dated if other is predecessor else other for other in rest]
    return Keyring(keys, max_ttl=ring.max_ttl)


def promoted(ring: Keyring, key: Key, now: float) -> Keyring:
    """Let a key of the ring take over at once: a pending one, or an earlier one again.

    Args:
        ring: The ring.
        key: A key of it that opens, and that is not active.
        now: Seconds since 1970.

    Returns:
        The new ring.
    """
    if len(ring) == 1:  # it is pending, and nothing has sealed yet
        return Keyring([key.replace(nbf=int(now))], max_ttl=ring.max_ttl)
    rest = without(ring, key, now)
    return placed(rest, _without_end(key).replace(nbf=free_start(rest, int(now))), now)


def revoked(ring: Keyring, key: Key, now: float, *, reason: str | None) -> Keyring:
    """Let a key open nothing from now on. In the place of an active one a fresh one seals at once.

    Args:
        ring: The ring.
        key: A key of it.
        now: Seconds since 1970.
        reason: For the operators.

    Returns:
        The new ring.
    """
    dead = key.replace(revoked=Revocation(int(now), reason))
    was_active = ring.role(key, now) == "active"
    if key.nbf > now and len(ring) > 1:
        ring = without(ring, key, now)
    keys = [other for other in ring if other is not key]
    ring = Keyring([*keys, dead], max_ttl=ring.max_ttl)
    if not was_active:
        return ring
    # Begun a minute ago, so that a replica whose clock is behind has a key to seal with as well;
    # yet later than all that have begun, or it would not take over.
    begun = [other.nbf for other in ring if other.nbf <= now and other.revoked is None]
    nbf = free_start(ring, max([int(now) - LEEWAY, *(start + 1 for start in begun)]))
    kids = {other.kid for other in ring}
    fresh = Key.generate(key.alg, now=now, nbf=nbf, taken=kids)
    return Keyring([*ring, _handing_over(ring, fresh)], max_ttl=ring.max_ttl)


def retired(ring: Keyring, key: Key, now: float) -> Keyring:
    """End a key: one that has sealed opens nothing from now on, a pending one is taken out.

    Args:
        ring: The ring.
        key: A key of it that is pending or verifying.
        now: Seconds since 1970.

    Returns:
        The new ring.
    """
    if key.nbf > now:
        return without(ring, key, now)
    keys = [other.replace(exp=int(now)) if other is key else other for other in ring]
    return Keyring(keys, max_ttl=ring.max_ttl)


def pruned(ring: Keyring, now: float) -> Keyring:
    """Take out the keys that have opened nothing for so long that no token of theirs is alive.

    Args:
        ring: The ring.
        now: Seconds since 1970.

    Returns:
        The new ring, or the same one if there is nothing to take out.

    Raises:
        KeyringError: No key would be left.
    """
    left = [key for key in ring if over_at(ring, key) > now]
    return ring if len(left) == len(ring) else Keyring(left, max_ttl=ring.max_ttl)


def over_at(ring: Keyring, key: Key) -> float:
    """Tell from when a key can be pruned, in seconds since 1970; infinity: it has no end."""
    if key.revoked is not None:
        # Until then a refused token should say "revoked", not "unknown".
        return key.revoked.revoked_at + ring.max_ttl + LEEWAY
    return end_of(key) + LEEWAY


def _predecessor(ring: Keyring, key: Key, now: float) -> Key | None:
    earlier = [
        other
        for other in ring
        if other.nbf < key.nbf and other.revoked is None and now < end_of(other)
    ]
    return earlier[-1] if earlier else None


def _handing_over(ring: Keyring, key: Key) -> Key:
    """Date a key by the one that takes over from it, if there is one."""
    starts = [other.nbf for other in ring if other.nbf > key.nbf and other.revoked is None]
    return key.replace(exp=min(starts) + ring.max_ttl + LEEWAY) if starts else key


def _without_end(key: Key) -> Key:
    return key_from_jwk({name: value for name, value in key.to_jwk().items() if name != "exp"})

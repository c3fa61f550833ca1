"""statebox_cli.rotation and keys_lifetimes: what becomes of a ring, and that no live token is lost."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import Key, Keyring
from statebox.keys import Revocation
from statebox_cli import rotation
from statebox_cli.keys_lifetimes import active, live_until, losses, outage, reigns, sealing, spans
from tests.samples import DAY, NOW, key

HOUR = 3600


def rings(*keys: Key) -> Keyring:
    return Keyring(keys, max_ttl=HOUR)


def added(before: Keyring, after: Keyring) -> Key:
    (fresh,) = [one for one in after if before.get(one.kid) is None]
    return fresh


def of(ring: Keyring, kid: str) -> Key:
    found = ring.get(kid)
    assert found is not None
    return found


def exp_of(ring: Keyring, kid: str) -> int | None:
    return of(ring, kid).exp


def test_a_rotation_is_a_key_to_come_and_a_date_for_the_one_before_it() -> None:
    before = rings(key("old"))
    after = rotation.rotated(before, NOW + 0.9, activate_in=600)
    new = added(before, after)
    assert (new.alg, new.iat, new.nbf, new.exp) == ("A256GCM", NOW, NOW + 600, None)
    assert exp_of(after, "old") == NOW + 600 + HOUR + 60
    assert [after.role(one, NOW) for one in after] == ["active", "pending"]
    assert [after.role(one, NOW + 600) for one in after] == ["verifying", "active"]


def test_a_rotation_across_modes_works_the_same() -> None:
    before = rings(key("old", "HS256"))
    assert added(before, rotation.rotated(before, NOW, activate_in=0)).alg == "HS256"
    after = rotation.rotated(before, NOW, activate_in=0, alg="A256GCM")
    assert added(before, after).alg == "A256GCM"
    assert exp_of(after, "old") == NOW + HOUR + 60


def test_a_rotation_while_another_is_pending_dates_the_pending_key() -> None:
    before = rings(key("old", exp=NOW + 600 + HOUR + 60), key("next", nbf=NOW + 600))
    after = rotation.rotated(before, NOW, activate_in=1200)
    assert exp_of(after, "old") == NOW + 600 + HOUR + 60
    assert exp_of(after, "next") == NOW + 1200 + HOUR + 60


def test_a_rotation_that_comes_before_a_pending_one_is_dated_by_it() -> None:
    before = rings(key("old", exp=NOW + 600 + HOUR + 60), key("next", nbf=NOW + 600))
    after = rotation.rotated(before, NOW, activate_in=60)
    assert exp_of(after, "old") == NOW + 60 + HOUR + 60
    assert added(before, after).exp == NOW + 600 + HOUR + 60
    assert exp_of(after, "next") is None


def test_two_keys_never_begin_in_one_second() -> None:
    ring = rings(key("old"))
    for _ in range(3):
        ring = rotation.rotated(ring, NOW, activate_in=600)
    assert [one.nbf - NOW for one in ring] == [-DAY, 600, 601, 602]


def test_a_key_that_would_never_get_out_of_the_ring_gets_an_end() -> None:
    before = rings(
        key("a", nbf=1), key("b", nbf=2), key("dead", nbf=3, revoked=Revocation(NOW)), key("c")
    )
    after = rotation.rotated(before, NOW, activate_in=600)
    ends = {one.kid: one.exp for one in after if before.get(one.kid)}
    assert ends == {"a": NOW + 4260, "b": NOW + 4260, "dead": None, "c": NOW + 4260}


def test_a_key_that_would_end_before_it_is_taken_over_from_lives_on_until_then() -> None:
    """Or no key would seal in between, and its tokens would be rejected."""
    before = rings(key("old", exp=NOW + 300))
    after = rotation.rotated(before, NOW, activate_in=600)
    assert exp_of(after, "old") == NOW + 600 + HOUR + 60


def test_the_fresh_key_is_for_the_algorithm_of_the_last_one_that_is_not_revoked() -> None:
    ring = rings(key("a"), key("b", "HS256", nbf=NOW - 10, revoked=Revocation(NOW)))
    assert added(ring, rotation.rotated(ring, NOW, activate_in=0)).alg == "A256GCM"
    lost = rings(key("b", "HS256", revoked=Revocation(NOW)))
    assert added(lost, rotation.rotated(lost, NOW, activate_in=0)).alg == "HS256"


def test_promoting_a_pending_key_moves_the_whole_rotation_to_now() -> None:
    before = rotation.rotated(rings(key("old")), NOW, activate_in=600)
    new = added(rings(key("old")), before)
    after = rotation.promoted(before, new, NOW + 10)
    assert active(after, NOW + 10) == of(after, new.kid)
    assert of(after, new.kid).nbf == NOW + 10
    assert exp_of(after, "old") == NOW + 10 + HOUR + 60


def test_promoting_past_a_pending_key_lets_that_one_follow() -> None:
    before = rings(
        key("old"), key("next", nbf=NOW + 600, exp=NOW + 9000), key("last", nbf=NOW + 1200)
    )
    after = rotation.promoted(before, of(before, "last"), NOW)
    assert [one.kid for one in after] == ["old", "last", "next"]
    assert exp_of(after, "last") == NOW + 600 + HOUR + 60
    assert exp_of(after, "next") is None


def test_promoting_a_verifying_key_goes_back_to_it() -> None:
    before = rings(key("old", exp=NOW + 4000), key("bad", nbf=NOW - 60))
    after = rotation.promoted(before, of(before, "old"), NOW)
    assert active(after, NOW) == of(after, "old")
    assert exp_of(after, "old") is None
    assert exp_of(after, "bad") == NOW + HOUR + 60


def test_promoting_the_only_key_lets_it_begin() -> None:
    before = rings(key("only", nbf=NOW + 600))
    assert active(rotation.promoted(before, of(before, "only"), NOW), NOW) is not None


def test_revoking_the_active_key_puts_a_fresh_one_in_its_place_on_every_clock() -> None:
    before = rings(
        key("older", exp=NOW + 100), key("old", nbf=NOW - 3000), key("next", nbf=NOW + 600)
    )
    after = rotation.revoked(before, of(before, "old"), NOW, reason="leaked")
    fresh = added(before, after)
    assert of(after, "old").revoked == Revocation(NOW, "leaked")
    assert [active(after, NOW + skew) for skew in (-60, 0, 60)] == [fresh] * 3
    assert (fresh.iat, fresh.exp) == (NOW, NOW + 600 + HOUR + 60)
    assert of(after, "older") == of(before, "older")


def test_revoking_a_key_that_has_just_begun_lets_the_fresh_one_be_the_latest() -> None:
    before = rings(key("older", nbf=NOW - 20, exp=NOW + 9000), key("old", nbf=NOW - 10))
    after = rotation.revoked(before, of(before, "old"), NOW, reason="leaked")
    assert active(after, NOW) == added(before, after)
    assert active(after, NOW - 20) is not None


def test_revoking_a_pending_key_lets_the_one_before_it_seal_on() -> None:
    before = rotation.rotated(rings(key("old")), NOW, activate_in=600)
    new = added(rings(key("old")), before)
    after = rotation.revoked(before, new, NOW, reason=None)
    assert exp_of(after, "old") is None
    assert len(after) == 2


def test_revoking_a_verifying_key_changes_nothing_else() -> None:
    before = rings(key("old", exp=NOW + 4000), key("new", nbf=NOW - 60))
    after = rotation.revoked(before, of(before, "old"), NOW, reason=None)
    assert (of(after, "new"), len(after)) == (of(before, "new"), 2)


def test_revoking_the_only_key_leaves_a_ring_that_seals() -> None:
    for nbf in (NOW - 10, NOW):
        before = rings(key("only", nbf=nbf))
        after = rotation.revoked(before, of(before, "only"), NOW, reason=None)
        assert active(after, NOW + 1) == added(before, after)
    pending = rings(key("only", nbf=NOW + 10))
    after = rotation.revoked(pending, of(pending, "only"), NOW, reason=None)
    assert active(after, NOW + 10) is None


def test_retiring_a_pending_key_takes_it_out_and_lets_the_one_before_it_seal_on() -> None:
    once = rotation.rotated(rings(key("old")), NOW, activate_in=600)
    first = added(rings(key("old")), once)
    twice = rotation.rotated(once, NOW, activate_in=1200)
    after = rotation.retired(twice, of(twice, first.kid), NOW)
    assert exp_of(after, "old") == NOW + 1200 + HOUR + 60
    assert rotation.retired(once, first, NOW) == rings(key("old"))


def test_retiring_a_verifying_key_ends_it_now() -> None:
    before = rings(key("old", exp=NOW + 4000), key("new", nbf=NOW - 60))
    after = rotation.retired(before, of(before, "old"), NOW)
    assert after.role(of(after, "old"), NOW) == "expired"


def test_pruning_takes_out_what_has_ended_for_every_clock() -> None:
    ring = rings(
        key("expired", exp=NOW - 60),
        key("fresh-end", nbf=NOW - 5000, exp=NOW - 59),
        key("revoked", nbf=NOW - 4000, revoked=Revocation(NOW - HOUR - 60)),
        key("just-revoked", nbf=NOW - 3000, revoked=Revocation(NOW - HOUR - 59)),
        key("new", nbf=NOW - 60),
    )
    assert [one.kid for one in rotation.pruned(ring, NOW)] == ["fresh-end", "just-revoked", "new"]
    clean = rings(key("new"))
    assert rotation.pruned(clean, NOW) is clean


def test_the_spans_of_a_ring_say_who_seals_when() -> None:
    ring = rings(
        key("a", nbf=100, exp=400),
        key("gone", nbf=150, revoked=Revocation(160)),
        key("b", nbf=200, exp=300),
        key("c", nbf=500),
    )
    assert spans(ring) == (
        (100, 150, "a"),
        (150, 200, "a"),
        (200, 300, "b"),
        (300, 400, "a"),  # the later one has ended, so the earlier one seals again
        (400, 500, None),
        (500, math.inf, "c"),
    )
    assert sealing(ring, of(ring, "a")) == (100, 400)
    assert sealing(ring, of(ring, "gone")) is None


def test_the_reigns_of_a_ring_say_who_sealed_as_it_happened() -> None:
    ring = rings(
        key("a", nbf=1000, exp=9000),
        key("gone", nbf=1500, revoked=Revocation(1600)),
        key("never", nbf=1900, revoked=Revocation(1800)),
        key("backdated", nbf=2000, iat=2060),
        key("made-long-after", nbf=3000, iat=3061),
    )
    assert reigns(ring) == (
        (1000, 1500, "a"),
        (1500, 1600, "gone"),
        (1600, 1800, "a"),
        (1800, 1900, "a"),
        (1900, 2060, "a"),
        (2060, 3000, "backdated"),
        (3000, 9000, "made-long-after"),
        (9000, math.inf, "made-long-after"),
    )
    # When it begins is when a replica seals with it, however far its clock is behind.
    assert sealing(ring, of(ring, "backdated")) == (2000, 3000)
    assert sealing(ring, of(ring, "gone")) is None


def test_a_token_can_have_been_sealed_until_the_next_key_was_made() -> None:
    ring = rings(key("old"), key("new", nbf=NOW - 60, iat=NOW))
    assert live_until(ring, of(ring, "old"), NOW) == NOW + HOUR + 60


@pytest.mark.parametrize(
    ("nbf", "exp", "until"),
    [
        (NOW - DAY, None, NOW - 1000 + HOUR + 60),  # taken over from 1000 s ago
        (NOW - DAY, NOW - 1, None),  # opens nothing
        (NOW - 500, None, NOW + HOUR + 60),  # active
        (NOW + 60, None, NOW + HOUR + 60),  # pending, and active where the clock is ahead
        (NOW + 61, None, None),  # pending
    ],
)
def test_a_token_of_a_key_can_be_alive_until_max_ttl_and_leeway_after_it_last_sealed(
    nbf: int, exp: int | None, until: int | None
) -> None:
    ring = rings(key("it", nbf=nbf, exp=exp), key("other", nbf=NOW - 1000))
    assert live_until(ring, of(ring, "it"), NOW) == until


def test_a_change_that_takes_away_a_live_token_is_told() -> None:
    before = rings(key("old", exp=NOW + 3000), key("new", nbf=NOW - 1000))
    old, new = before
    cases: list[tuple[Keyring, list[str]]] = [
        (before, []),
        (rings(new), ["old"]),
        (rings(old), ["new"]),
        (rings(old.replace(exp=NOW + 2660), new), []),
        (rings(old.replace(exp=NOW + 2659), new), ["old"]),
        (rings(old.replace(revoked=Revocation(NOW)), new), ["old"]),
        (rings(key("old", "HS256"), key("new", "HS256", nbf=NOW - 1000)), ["old", "new"]),
        (
            rings(key("old", exp=NOW + 3000), Key(kid="new", alg="A256GCM", secret=bytes(32))),
            ["new"],
        ),
    ]
    for after, kids in cases:
        assert [loss.key.kid for loss in losses(before, after, NOW)] == kids
    # A key that ends too early already is not this change's fault.
    early = rings(old.replace(exp=NOW + 10), new)
    assert losses(early, early, NOW) == []


def test_going_back_to_a_key_leaves_no_clock_with_one_that_was_taken_over_from_long_ago() -> None:
    before = rings(
        key("first", nbf=NOW - 9000, exp=NOW + 300),
        key("old", nbf=NOW - 5000, exp=NOW + 9000),
        key("new", nbf=NOW - 10),
    )
    back = rotation.promoted(before, of(before, "old"), NOW)
    # Half a minute behind, neither of the two has begun: there the first would seal again.
    assert active(back, NOW - 30) == of(back, "first")
    assert outage(before, back, NOW)
    assert not outage(before, before, NOW)
    assert not outage(before, rotation.promoted(before, of(before, "old"), NOW + 60), NOW + 60)


def test_going_back_in_the_second_of_a_rotation_is_no_outage() -> None:
    before = rings(key("old"), key("middle", nbf=NOW - 900), key("new", nbf=NOW))
    back = rotation.promoted(before, of(before, "old"), NOW)
    assert of(back, "old").nbf == NOW + 1
    assert not outage(before, back, NOW)


def test_a_ring_that_is_read_again_is_judged_as_before() -> None:
    """What is remembered of one ring is also true of its equals, whose keys are other objects."""
    for _ in range(2):
        before = rings(key("old", exp=NOW + 3000), key("new", nbf=NOW - 1000))
        assert len(losses(before, rings(key("other")), NOW)) == 2
        assert sealing(before, of(before, "new")) == (NOW - 1000, math.inf)


@dataclass
class Fleet:
    """Replicas whose clocks are up to 30 s off, and the tokens that they sealed."""

    ring: Keyring
    now: int = NOW
    tokens: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    skews: tuple[int, ...] = (-30, 0, 30)

    def seal(self) -> None:
        for skew in self.skews:
            clock = self.now + skew
            self.tokens.append((self.ring.active(clock).kid, clock + self.ring.max_ttl))

    def open_all(self) -> None:
        for kid, exp in self.tokens:
            for skew in self.skews:
                clock = self.now + skew
                if clock < exp:
                    found = self.ring.get(kid)
                    assert found is not None, "no live token's key is ever taken out"
                    assert self.ring.role(found, clock) in ("pending", "active", "verifying")


def change(ring: Keyring, now: int, what: str, number: int) -> Keyring:
    kids = list(ring)
    one = kids[number % len(kids)]
    role = ring.role(one, now)
    steps: dict[str, Callable[[], Keyring]] = {
        "rotate": lambda: rotation.rotated(ring, now, activate_in=number),
        "prune": lambda: rotation.pruned(ring, now),
    }
    if role in ("pending", "verifying"):
        steps["retire"] = lambda: rotation.retired(ring, one, now)
        steps["promote"] = lambda: rotation.promoted(ring, one, now)
    if role == "pending":
        steps["revoke"] = lambda: rotation.revoked(ring, one, now, reason=None)
    after = steps[what]() if what in steps else ring
    return ring if losses(ring, after, now) or outage(ring, after, now) else after


CHANGES = st.tuples(
    st.integers(0, 2000),  # seconds until it happens
    st.sampled_from(["rotate", "promote", "retire", "revoke", "prune", "wait"]),
    st.integers(0, 3000),
)


@given(st.lists(CHANGES, max_size=25))
def test_no_sequence_of_changes_loses_a_live_token_on_clocks_that_are_30_seconds_off(
    changes: list[tuple[int, str, int]],
) -> None:
    fleet = Fleet(rings(key("first")))
    for seconds, what, number in changes:
        for step in (seconds // 2, seconds - seconds // 2):
            fleet.now += step
            fleet.seal()
            fleet.open_all()
        fleet.ring = change(fleet.ring, fleet.now, what, number)
        fleet.open_all()
        fleet.seal()

"""A rotation by the command, seen by replicas whose clocks are 30 seconds apart."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from statebox import ExpiredKeyError, ExpiredTokenError, Keyring, Statebox
from statebox.sources import open_source
from tests.cli.keys_commands import Keys, put
from tests.cli.keys_commands import clock as clock  # noqa: PLC0414 - fixtures
from tests.cli.keys_commands import keys as keys  # noqa: PLC0414
from tests.cli.keys_commands import path as path  # noqa: PLC0414
from tests.samples import AUDIENCE, NOW, Clock, key

TTL = 300


@dataclass
class Skewed:
    """A clock that is off by so many seconds."""

    true: Clock
    by: float

    def __call__(self) -> float:
        return self.true.now + self.by


def replica(path: Path, clock: Clock, by: float) -> Statebox:
    source = open_source(str(path), monotonic=clock)
    return Statebox(source, audience=AUDIENCE, ttl=TTL, clock=Skewed(clock, by))


def seal(box: Statebox) -> str:
    return box.seal({"step": 1}, principal="alice", request=None)


def key_of(box: Statebox, token: str) -> str:
    return box.open(token, principal="alice", request=None).key_id


def test_no_replica_rejects_a_valid_token_of_another_through_a_whole_rotation(
    keys: Keys, path: Path, clock: Clock
) -> None:
    put(path, key("old"), max_ttl=TTL)
    boxes = [replica(path, clock, by) for by in (-15, 15, 0)]
    tokens: list[tuple[str, float]] = []
    sealing: list[set[str]] = []
    for second in range(0, 600, 10):
        clock.now = NOW + second
        if second == 30:
            assert keys("rotate", "--activate-in", "60s").code == 0
        fresh = [seal(box) for box in boxes]
        sealing.append({key_of(boxes[0], token) for token in fresh})
        tokens += [(token, clock.now) for token in fresh]
        # Valid for every clock of the three: sealed by the slowest, opened by the fastest.
        tokens = [(token, sealed) for token, sealed in tokens if clock.now < sealed + TTL - 30]
        for box in boxes:
            for token, _ in tokens:
                key_of(box, token)
    # Whoever is ahead begins with the new key while who is behind still seals with the old one.
    assert [len(kids) for kids in sealing].count(2) == 3
    (new,) = [one.kid for one in Keyring.load(path) if one.kid != "old"]
    assert (sealing[0], sealing[-1]) == ({"old"}, {new})


def test_each_replica_refuses_the_old_key_from_its_date_on_by_its_own_clock(
    keys: Keys, path: Path, clock: Clock
) -> None:
    put(path, key("old"), max_ttl=TTL)
    boxes = {by: replica(path, clock, by) for by in (-15, 15)}
    token = seal(boxes[-15])
    assert keys("rotate", "--activate-in", "60s").code == 0
    end = NOW + 60 + TTL + 60
    for by, box in boxes.items():
        clock.now = end - 1 - by
        with pytest.raises(ExpiredTokenError):
            key_of(box, token)
        clock.now = end - by
        with pytest.raises(ExpiredKeyError):
            key_of(box, token)


@pytest.mark.parametrize("by", [-30, 0, 30])
def test_a_leaked_key_is_replaced_on_every_replica_at_once(
    keys: Keys, path: Path, clock: Clock, by: int
) -> None:
    put(path, key("leaked"))
    box, other = replica(path, clock, by), replica(path, clock, 0)
    stale = seal(other)
    assert keys("revoke", "leaked", "--reason", "leaked", "--force", "--yes").code == 0
    clock.now += 1
    fresh = seal(box)
    assert key_of(other, fresh) != "leaked"
    with pytest.raises(Exception, match="revoked"):
        key_of(box, stale)

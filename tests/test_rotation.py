"""A rotation as a matrix: who seals what, and who opens it, at every stage of one key's life.

After tink's: every replica may be at another stage, and each pair of stages has its answer.
"""

from __future__ import annotations

from typing import Final

import pytest

from statebox import Keyring, KeyringError, OpenError
from statebox.keys import Revocation
from tests.samples import ALGORITHMS, DAY, NOW, Clock, box, key

END: Final = NOW + 600 + 3600 + 60  # the new nbf + max_ttl + leeway


def rings(alg: str) -> dict[str, Keyring]:
    old = key("old", alg, nbf=NOW - DAY)
    new = key("new", alg, nbf=NOW + 600)  # pending at first, active 600 s later
    return {
        "old": Keyring([old]),
        "old and pending": Keyring([old, new]),
        "old ends": Keyring([old.replace(exp=END), new]),
        "old revoked": Keyring([old.replace(revoked=Revocation(NOW)), new]),
        "new": Keyring([new]),
    }


BEFORE, AFTER, LATE = NOW, NOW + 600, END
SEALS = {
    ("old", BEFORE): "old",
    ("old", AFTER): "old",
    ("old", LATE): "old",
    ("old and pending", BEFORE): "old",
    ("old and pending", AFTER): "new",
    ("old and pending", LATE): "new",
    ("old ends", BEFORE): "old",
    ("old ends", AFTER): "new",
    ("old ends", LATE): "new",
    ("old revoked", BEFORE): None,
    ("old revoked", AFTER): "new",
    ("old revoked", LATE): "new",
    ("new", BEFORE): None,
    ("new", AFTER): "new",
    ("new", LATE): "new",
}
OPENS = {
    ("old", "old"): "ok",
    ("old", "new"): "unknown_key",
    ("old and pending", "old"): "ok",
    ("old and pending", "new"): "ok",
    ("old ends", "old"): "ok",
    ("old ends", "new"): "ok",
    ("old revoked", "old"): "revoked_key",
    ("old revoked", "new"): "ok",
    ("new", "old"): "unknown_key",
    ("new", "new"): "ok",
}
each_alg = pytest.mark.parametrize("alg", ALGORITHMS)


def names(cell: str | int) -> str:
    return cell if isinstance(cell, str) else {BEFORE: "before", AFTER: "after"}.get(cell, "late")


@each_alg
@pytest.mark.parametrize(("stage", "now"), SEALS, ids=names)
def test_each_stage_seals_with_the_key_that_the_clock_makes_active(
    alg: str, stage: str, now: int
) -> None:
    here = box(rings(alg)[stage], Clock(now))
    expected = SEALS[stage, now]
    if expected is None:
        with pytest.raises(KeyringError, match="no active key"):
            here.seal("s", principal=None, request=None)
        return
    token = here.seal("s", principal=None, request=None)
    assert here.open(token, principal=None, request=None).key_id == expected


@each_alg
@pytest.mark.parametrize(("stage", "kid"), OPENS, ids=str)
@pytest.mark.parametrize("now", [BEFORE, AFTER, LATE - 1], ids=["before", "after", "in time"])
def test_each_stage_opens_what_the_others_seal_exactly_as_the_matrix_says(
    alg: str, stage: str, kid: str, now: int
) -> None:
    """A replica that is behind, with its clock or its file, decides nobody else's answer."""
    sealed_by = Keyring([key(kid, alg, nbf=0)])
    token = box(sealed_by, Clock(now)).seal("s", principal="alice", request=None)
    here = box(rings(alg)[stage], Clock(now))
    try:
        code = "ok" if here.open(token, principal="alice", request=None).key_id == kid else "other"
    except OpenError as error:
        code = error.code
    assert code == OPENS[stage, kid]


@each_alg
def test_an_old_key_opens_up_to_its_exp_and_not_a_second_longer(alg: str) -> None:
    stages = rings(alg)
    token = box(stages["old"], Clock(END - 5), ttl=3600).seal("s", principal=None, request=None)
    in_time = box(stages["old ends"], Clock(END - 0.001))
    assert in_time.open(token, principal=None, request=None).key_id == "old"
    with pytest.raises(OpenError) as caught:
        box(stages["old ends"], Clock(END)).open(token, principal=None, request=None)
    assert caught.value.code == "expired_key"


@each_alg
def test_a_planned_rotation_refuses_no_token_at_any_second(alg: str) -> None:
    """Replicas read the new file at different times; none ever refuses what another just sealed."""
    stages = rings(alg)
    for now in (*range(NOW, NOW + 1200, 60), NOW + 599, NOW + 600, NOW + 601, END - 3601):
        # Until the new key is active a replica may still have the old file; then all have read it.
        files = ["old and pending", "old ends"] + ["old"] * (now < NOW + 600)
        for sealer, opener in ((one, other) for one in files for other in files):
            token = box(stages[sealer], Clock(now)).seal("s", principal=None, request=None)
            for later in (0, 599):
                if opener != "old" or now + later < NOW + 600:
                    turn = box(stages[opener], Clock(now + later))
                    assert turn.open(token, principal=None, request=None).state == "s"


def test_a_flow_goes_on_over_a_rotation_and_a_change_of_algorithm() -> None:
    clock = Clock(NOW)
    here = box([key("enc", "A256GCM", nbf=NOW - 5), key("mac", "HS256", nbf=NOW + 100)], clock)
    turn = here.open(here.seal(1, principal="alice", request=None), principal="alice", request=None)
    clock.now = NOW + 100
    token = here.seal(2, principal="alice", request=None, after=turn)
    second = here.open(token, principal="alice", request=None)
    assert (turn.key_id, second.key_id) == ("enc", "mac")
    assert (second.flow, second.round, second.deadline) == (turn.flow, 2, turn.deadline)


def test_when_the_newest_key_is_revoked_the_one_before_it_seals_again() -> None:
    rescued = Keyring([key("old", nbf=NOW - DAY), key("new", nbf=NOW - 5, revoked=Revocation(NOW))])
    token = box(rescued).seal("s", principal=None, request=None)
    assert box(rescued).open(token, principal=None, request=None).key_id == "old"

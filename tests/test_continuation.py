"""What opening gives back: everything that was sealed, and nothing that can be changed."""

import copy
import pickle

import pytest

from statebox import Continuation
from tests.samples import AUDIENCE, NOW, REQUEST, box

NAMES = [
    "state",
    "flow",
    "round",
    "issued_at",
    "expires_at",
    "deadline",
    "key_id",
    "token_id",
    "audience",
]


def a_turn() -> Continuation:
    token = box().seal({"a": [1]}, principal="alice", request=REQUEST)
    return box().open(token, principal="alice", request=REQUEST)


def said_by(turn: Continuation) -> dict[str, object]:
    return {name: getattr(turn, name) for name in NAMES}


def test_a_continuation_says_all_that_the_product_page_names() -> None:
    said = said_by(a_turn())
    assert (len(str(said.pop("flow"))), len(str(said.pop("token_id")))) == (16, 32)
    assert said == {
        "state": {"a": [1]},
        "round": 1,
        "issued_at": NOW,
        "expires_at": NOW + 600,
        "deadline": NOW + 3600,
        "key_id": "key-1",
        "audience": AUDIENCE,
    }


@pytest.mark.parametrize("name", [*NAMES, "new"])
def test_a_continuation_never_changes(name: str) -> None:
    turn = a_turn()
    with pytest.raises(AttributeError):
        setattr(turn, name, 5)
    with pytest.raises(AttributeError):
        delattr(turn, name)


def test_a_continuation_can_be_copied_and_pickled_and_then_followed() -> None:
    """A server may keep one in its session store while a tool asks somebody else."""
    turn = a_turn()
    for again in (copy.copy(turn), copy.deepcopy(turn), pickle.loads(pickle.dumps(turn))):  # noqa: S301 - our own pickle
        assert said_by(again) == said_by(turn)
        token = box().seal("next", principal=None, request=None, after=again)
        assert box().open(token, principal=None, request=None).round == 2


def test_flow_and_token_id_are_new_for_every_flow() -> None:
    turns = [a_turn() for _ in range(50)]
    assert len({turn.flow for turn in turns}) == len({turn.token_id for turn in turns}) == 50

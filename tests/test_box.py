"""Sealing and opening as a server uses them: flows, caps, configuration, any state at all."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import threading
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statebox import (
    Continuation,
    ExpiredTokenError,
    FutureTokenError,
    Keyring,
    KeyringError,
    MalformedTokenError,
    OpenError,
    PrincipalError,
    Request,
    RequestError,
    SealError,
    Statebox,
)
from statebox.bindings import METHODS, Principal
from statebox.state import State
from tests.samples import ALGORITHMS, AUDIENCE, DAY, NOW, REQUEST, Clock, box, key, ring, shown
from tests.states import any_text, arguments, nested, states
from tests.work import with_room_for

each_alg = pytest.mark.parametrize("alg", ALGORITHMS)


class Swapped:
    """A live source whose ring a test exchanges."""

    def __init__(self, ring: Keyring) -> None:
        self.ring = ring

    def current(self) -> Keyring:
        return self.ring

    def reread(self) -> Keyring:
        return self.ring


def opened(here: Statebox, token: str) -> Continuation:
    return here.open(token, principal=None, request=None)


def sealed(here: Statebox, state: State = "s", after: Continuation | None = None) -> str:
    return here.seal(state, principal=None, request=None, after=after)


# --- what is sealed opens -----------------------------------------------------------------------

PRINCIPALS = st.none() | any_text | st.lists(any_text, max_size=4) | st.tuples(any_text, any_text)
REQUESTS = st.none() | st.tuples(
    st.sampled_from(list(METHODS)) | any_text, any_text, st.none() | arguments
)


@given(state=states, principal=PRINCIPALS, request=REQUESTS)
@example(state="", principal="\ud800", request=("tools/call", "\ud800", {"\udfff": "\udc80"}))
@example(state="", principal="", request=("\ud800", "", {}))
@example(state=None, principal=[], request=("", "", {}))
@example(state=None, principal=[""], request=("resources/read", "\0", {"": None}))
@example(state=None, principal=["", "\0"], request=("tools/call", "x" * 3000, {}))
def test_whatever_is_sealed_opens_with_the_same_arguments(
    state: State, principal: Principal | None, request: tuple[str, str, Any] | None
) -> None:
    """A token that no one can open is work that nobody can finish: it is refused when sealing."""
    for alg in ALGORITHMS:
        here = box(alg)
        try:
            bound = None if request is None else Request(*request)
            token = here.seal(state, principal=principal, request=bound)
        except ValueError:
            continue  # an empty principal; a method or target that no token can carry
        turn = here.open(token, principal=principal, request=bound)
        assert repr(turn.state) == repr(state)
        assert len(token) <= 65536
        with pytest.raises(OpenError):
            here.open(token, principal=["not", "them"], request=bound)
        with pytest.raises(OpenError):
            here.open(token, principal=principal, request=Request("not", "this", {"a": 1}))


@each_alg
@pytest.mark.parametrize("kind", ["list", "dict", "both"])
def test_a_state_of_64_levels_opens_and_one_of_65_or_10000_is_not_sealed(
    alg: str, kind: str
) -> None:
    here = box(alg)
    assert opened(here, sealed(here, nested(64, kind))).state == nested(64, kind)
    for depth in (65, 10_000):
        with pytest.raises(SealError, match="more than 64 levels") as caught:
            sealed(here, nested(depth, kind))
        assert caught.value.code == "unsupported_state"
        assert caught.value.path is not None
        assert caught.value.path.startswith("$")


class Identity(NamedTuple):
    issuer: str
    subject: str


@each_alg
def test_where_the_stack_has_no_room_for_64_levels_the_errors_are_typed_too(alg: str) -> None:
    """A server may be deep in its own stack, and a client must not be able to tell."""
    here = box(alg)
    token = sealed(here, nested(64, "both"))
    with pytest.raises(SealError, match="no room") as caught:
        with_room_for(70, lambda: sealed(here, nested(64, "both")))
    assert caught.value.code == "unsupported_state"
    with pytest.raises(MalformedTokenError):
        with_room_for(70, lambda: opened(here, token))
    with pytest.raises(ValueError, match="no room"):
        with_room_for(70, lambda: Request("tools/call", "t", {"a": nested(63, "both")}))
    assert opened(here, token).state == nested(64, "both")


LOOP: list[Any] = []
LOOP.append(LOOP)
UNSUPPORTED: dict[str, tuple[object, str]] = {
    "a set": ({"a": {1}}, "$.a"),
    "a tuple": ([(1,)], "$[0]"),
    "a named tuple": ([Identity("a", "b")], "$[0]"),
    "NaN": ({"a": [float("nan")]}, "$.a[0]"),
    "a lone surrogate": ({"a": "\ud800"}, "$.a"),
    "a float key": ({"a": {1.5: 1}}, "$.a"),
    "an object": (object(), "$"),
    "an ellipsis": (..., "$"),
    "a class": ([int], "$[0]"),
    "a continuation": ([opened(box(), sealed(box()))], "$[0]"),
}


@pytest.mark.parametrize(("state", "path"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_a_state_that_no_token_carries_is_refused_with_the_path_to_the_value(
    state: Any, path: str
) -> None:
    with pytest.raises(SealError) as caught:
        sealed(box(), state)
    assert (caught.value.code, caught.value.path) == ("unsupported_state", path)
    assert caught.value.message.startswith(path)


def test_a_state_that_holds_itself_is_refused() -> None:
    with pytest.raises(SealError, match="more than 64 levels"):
        sealed(box(), LOOP)


LARGE: list[State] = ["x" * 65_536, b"x" * 65_536, list(range(30_000)), 1 << 600_000]


@pytest.mark.parametrize("state", LARGE, ids=["text", "bytes", "list", "number"])
def test_a_state_of_64_kilobytes_is_too_large(state: State) -> None:
    with pytest.raises(SealError, match="the cap is 65536") as caught:
        sealed(box(), state)
    assert (caught.value.code, caught.value.path) == ("too_large", None)


def test_a_request_whose_target_is_too_long_for_a_token_is_not_sealed() -> None:
    call = Request("resources/read", "file:///" + "x" * 65_536)
    with pytest.raises(SealError) as caught:
        box().seal("s", principal=None, request=call)
    assert caught.value.code == "too_large"
    with pytest.raises(RequestError):
        box().open(sealed(box()), principal=None, request=call)


def test_a_principal_of_any_length_makes_no_token_longer() -> None:
    """A tag has 16 bytes, and so a client learns nothing of the name from the length."""
    lengths = {
        len(box().seal("s", principal=name, request=None))
        for name in ("a", "x" * 1_000_000, ("i", "s", "c"), ["p"] * 1000)
    }
    assert len(lengths) == 1


@each_alg
def test_what_is_sealed_at_the_cap_opens_at_the_cap(alg: str) -> None:
    here = box(alg, max_token_chars=1000)
    sizes: set[int] = set()
    for size in range(500, 800):
        try:
            token = sealed(here, "x" * size)
        except SealError:
            continue
        assert opened(here, token).state == "x" * size
        sizes.add(len(token))
    assert 998 <= max(sizes) <= 1000


def test_changing_the_state_afterwards_does_not_change_the_token() -> None:
    state: dict[str | int, State] = {"a": [1]}
    token = sealed(box(), state)
    state["a"] = "changed"
    assert opened(box(), token).state == {"a": [1]}


@each_alg
def test_no_two_tokens_are_the_same(alg: str) -> None:
    here = box(alg)
    assert len({sealed(here) for _ in range(1000)}) == 1000


def test_no_two_encrypted_tokens_share_an_iv() -> None:
    import base64

    messages = [base64.urlsafe_b64decode(sealed(box())[4:] + "==") for _ in range(1000)]
    ivs = {message[message.index(b"\xa1\x05\x4c") + 3 :][:12] for message in messages}
    assert len(ivs) == 1000


# --- principals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nobody", ["", [], (), [""], ["", ""], ("", "", "")], ids=repr)
def test_an_empty_principal_is_refused_when_sealing(nobody: Principal) -> None:
    """It is a user id that is missing by mistake; all of those would be one user."""
    with pytest.raises(ValueError, match="the principal is empty"):
        box().seal("s", principal=nobody, request=None)


class Role(StrEnum):
    ALICE = "alice"


@pytest.mark.parametrize(
    ("sealed_for", "presented"),
    [
        ("alice", ["alice"]),
        (["iss", "alice"], ("iss", "alice")),
        (Role.ALICE, "alice"),
        (Identity("iss", "alice"), ["iss", "alice"]),
    ],
    ids=["text and list", "list and tuple", "an enum", "a named tuple"],
)
def test_a_principal_is_its_parts_whatever_holds_them(
    sealed_for: Principal, presented: Principal
) -> None:
    here = box()
    token = here.seal("s", principal=sealed_for, request=None)
    assert here.open(token, principal=presented, request=None).state == "s"
    token = here.seal("s", principal=presented, request=None)
    assert here.open(token, principal=sealed_for, request=None).state == "s"


def test_principal_and_request_have_no_default() -> None:
    with pytest.raises(TypeError, match="principal"):
        cast("Any", box()).seal("s", request=None)
    with pytest.raises(TypeError, match="request"):
        cast("Any", box()).open("sb1.", principal=None)


# --- flows --------------------------------------------------------------------------------------


@each_alg
def test_a_flow_keeps_its_name_and_its_deadline_over_its_rounds(alg: str) -> None:
    clock = Clock()
    here = box(alg, clock)
    turn = opened(here, sealed(here, 0))
    first = turn
    for round_ in range(2, 33):
        clock.now += 60
        turn = opened(here, sealed(here, round_, turn))
        assert (turn.state, turn.round) == (round_, round_)
        assert (turn.flow, turn.deadline) == (first.flow, NOW + 3600)
        assert turn.expires_at == min(turn.issued_at + 600, NOW + 3600)
    with pytest.raises(SealError, match="this would be round 33") as caught:
        sealed(here, "s", turn)
    assert caught.value.code == "too_many_rounds"


def test_a_flow_is_not_continued_from_its_deadline_on() -> None:
    clock = Clock()
    here = box(clock=clock, ttl=100, max_flow_age=150)
    turn = opened(here, sealed(here))
    clock.now = NOW + 90
    turn = opened(here, sealed(here, "s", turn))
    assert turn.expires_at == NOW + 150
    clock.now = NOW + 149.5
    last = sealed(here, "s", turn)
    assert opened(here, last).round == 3
    clock.now = NOW + 150
    with pytest.raises(SealError, match="the flow ended 0 s ago") as caught:
        sealed(here, "s", turn)
    assert caught.value.code == "flow_expired"
    with pytest.raises(OpenError):
        opened(here, last)


def test_a_flow_started_elsewhere_is_measured_by_this_servers_caps() -> None:
    patient, strict = box(max_rounds=100, max_flow_age=DAY), box(max_rounds=1)
    turn = opened(patient, sealed(patient))
    with pytest.raises(SealError, match="the cap is 1"):
        sealed(strict, "s", turn)
    second = sealed(patient, "s", turn)
    with pytest.raises(OpenError) as caught:
        opened(strict, second)
    assert caught.value.code == "too_many_rounds"


def test_every_flow_has_a_name_of_its_own() -> None:
    assert len({opened(box(), sealed(box())).flow for _ in range(200)}) == 200


@pytest.mark.parametrize("after", [False, 0, "", "sb1.", {}, (), object()], ids=shown)
def test_only_a_continuation_is_continued(after: Any) -> None:
    with pytest.raises(TypeError, match="after is a Continuation"):
        sealed(box(), "s", after)


def test_the_next_round_may_be_bound_to_another_principal_and_request() -> None:
    """The server says so, by sealing; the presenter of this round had to match the last one."""
    here = box()
    turn = here.open(
        here.seal(1, principal="alice", request=REQUEST), principal="alice", request=REQUEST
    )
    token = here.seal(2, principal="bob", request=None, after=turn)
    assert here.open(token, principal="bob", request=None).round == 2
    with pytest.raises(PrincipalError):
        here.open(token, principal="alice", request=None)


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "now", [0, 0.0, 0.999, NOW + 0.999, 4_294_967_295.5, float((1 << 40) - 3601)]
)
def test_a_token_opens_in_the_moment_it_was_sealed_at_any_time(now: float) -> None:
    here = box([key(nbf=0)], Clock(now))
    turn = opened(here, sealed(here))
    assert (turn.issued_at, turn.expires_at) == (int(now), int(now) + 600)


NO_TIMES = [float("nan"), float("inf"), float("-inf"), -1, -0.001, (1 << 40), float(1 << 40), 1e300]


@pytest.mark.parametrize("now", NO_TIMES, ids=str)
def test_a_clock_that_shows_no_time_seals_nothing(now: float) -> None:
    with pytest.raises(ValueError, match="clock gives no time"):
        sealed(box([key(nbf=0)], Clock(now)))


def test_nothing_is_sealed_whose_flow_would_end_after_the_last_time_of_a_token() -> None:
    with pytest.raises(ValueError, match="clock gives no time"):
        sealed(box([key(nbf=0)], Clock((1 << 40) - 3600)))


def test_a_clock_that_goes_back_refuses_what_is_then_too_far_ahead() -> None:
    clock = Clock()
    here = box(clock=clock)
    token = sealed(here)
    clock.now -= 60
    turn = opened(here, token)
    assert opened(here, sealed(here, "s", turn)).issued_at == NOW - 60
    clock.now -= 1
    with pytest.raises(FutureTokenError):
        opened(here, token)


def test_a_replica_whose_clock_is_behind_by_the_leeway_opens_what_another_sealed() -> None:
    token = sealed(box(clock=Clock(NOW + 60)))
    assert opened(box(clock=Clock(NOW)), token).issued_at == NOW + 60


def test_one_token_can_live_shorter_or_longer_than_the_boxs_others() -> None:
    here = box()
    for ttl in (1, 599, 601, 3600):
        token = here.seal("s", principal=None, request=None, ttl=ttl)
        assert opened(here, token).expires_at == NOW + ttl
        late = box(clock=Clock(NOW + ttl))
        with pytest.raises(ExpiredTokenError):
            opened(late, token)
    with pytest.raises(ValueError, match="over the keyring's max_ttl"):
        here.seal("s", principal=None, request=None, ttl=3601)


# --- configuration ------------------------------------------------------------------------------

NOT_SECONDS: list[object] = [
    None,
    True,
    "600",
    [600],
    600j,
    b"",
    float("nan"),
    float("inf"),
    -1,
    -600,
]
NEVER = [*NOT_SECONDS, 366 * DAY + 1]


@pytest.mark.parametrize("name", ["ttl", "max_flow_age", "leeway"])
@pytest.mark.parametrize("value", NEVER, ids=str)
def test_a_length_of_time_that_cannot_work_fails_when_the_box_is_made(
    name: str, value: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        Statebox(ring(), **cast("Any", {"audience": AUDIENCE, name: value}))


@pytest.mark.parametrize("value", [0, 0.5, 0.999])
def test_a_lifetime_under_a_second_fails_when_the_box_is_made(value: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        box(ttl=value)
    with pytest.raises(ValueError, match="max_flow_age"):
        box(max_flow_age=value)


def test_a_ttl_over_the_rings_max_ttl_fails_when_the_box_is_made() -> None:
    short = Keyring([key()], max_ttl=300)
    box(short, ttl=300)
    with pytest.raises(ValueError, match="over the keyring's max_ttl of 300 s"):
        box(short, ttl=301)
    with pytest.raises(ValueError, match="over the keyring's max_ttl of 300 s"):
        box(short)


@pytest.mark.parametrize("value", [0, -1, 65536, 32.0, True, None, "32"], ids=repr)
def test_a_cap_on_rounds_that_cannot_work_fails_when_the_box_is_made(value: Any) -> None:
    with pytest.raises(ValueError, match="max_rounds"):
        box(max_rounds=value)


@pytest.mark.parametrize(
    ("audience", "error"),
    [
        ("", ValueError),
        ("\ud800", ValueError),
        (None, TypeError),
        (b"b", TypeError),
        (["b"], TypeError),
    ],
    ids=shown,
)
def test_an_audience_that_cannot_work_fails_when_the_box_is_made(
    audience: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        box(audience=audience)


def test_without_an_active_key_nothing_is_sealed_and_tokens_still_open() -> None:
    token = sealed(box())
    pending = box([key(nbf=NOW + 5)])
    with pytest.raises(KeyringError, match="no active key"):
        sealed(pending)
    assert opened(pending, token).state == "s"


class Failing:
    """A source that has a ring until it is gone."""

    gone = False

    def current(self) -> Keyring:
        if self.gone:
            raise KeyringError("no ring any more") from OSError("disk")
        return Keyring([key()])

    reread = current


def test_why_a_source_has_no_ring_stays_with_the_error_of_sealing() -> None:
    source = Failing()
    here = Statebox(source, audience="billing", on_event=lambda _: None)
    source.gone = True
    with pytest.raises(KeyringError) as caught:
        here.seal("s", principal=None, request=None)
    assert str(caught.value.__cause__) == "disk"


def test_an_unsupported_state_hangs_on_no_error_below_it() -> None:
    with pytest.raises(SealError) as caught:
        sealed(box(), cast("Any", {"a": {1}}))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


class Value:
    """A value that no token carries, and that can be watched."""


def test_a_state_that_was_not_sealed_is_let_go_with_its_error() -> None:
    here, value = box(), Value()
    watched = weakref.ref(value)
    gc.disable()
    try:
        with contextlib.suppress(SealError):
            sealed(here, cast("Any", {"a": value}))
        del value
        assert watched() is None, "only the garbage collector would find it"
    finally:
        gc.enable()


@given(
    audience=st.text(
        st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=300
    )
)
@settings(max_examples=50)
def test_any_audience_is_a_service_of_its_own(audience: str) -> None:
    here = box(audience=audience)
    token = sealed(here)
    assert opened(here, token).audience == here.audience == audience
    with pytest.raises(OpenError) as caught:
        opened(box(audience=audience + "x"), token)
    assert caught.value.code == "audience"


def test_a_sibling_and_its_box_never_open_each_others_tokens() -> None:
    """Nor does a service whose name looks like a sibling's."""
    here = box(audience="billing")
    answers = here.sibling("answers")
    assert opened(answers, sealed(answers)).state == "s"
    for one, other in (
        (here, answers),
        (answers, here),
        (box(audience="billing#answers"), answers),
    ):
        with pytest.raises(OpenError, match="another audience"):
            opened(one, sealed(other))
    with pytest.raises(ValueError, match="NUL"):
        box(audience="billing\0answers")


def test_a_turn_of_another_service_is_not_continued() -> None:
    turn = opened(box(audience="orders"), sealed(box(audience="orders")))
    with pytest.raises(ValueError, match="another service"):
        sealed(box(audience="billing"), after=turn)


def test_a_token_does_not_outlive_its_key() -> None:
    """It would be refused as `expired_key`, and its own exp would be a lie."""
    ends = box([key(exp=NOW + 5)])
    assert opened(ends, sealed(ends)).expires_at == NOW + 5


def test_a_ring_that_lowers_max_ttl_shortens_the_lives_of_new_tokens() -> None:
    """A rotation keeps an old key for max_ttl, so no token may live longer."""
    source = Swapped(Keyring([key()], max_ttl=3600))
    here = box(source, ttl=3600)
    assert opened(here, sealed(here)).expires_at == NOW + 3600
    source.ring = Keyring([key()], max_ttl=60)
    assert opened(here, sealed(here)).expires_at == NOW + 60


def test_a_principal_of_a_wrong_type_leaves_nothing_decrypted_in_a_frame() -> None:
    here = box()
    token = here.seal("secret-state", principal="alice", request=None)
    with pytest.raises(TypeError) as caught:
        here.open(token, principal=cast("Any", 5), request=None)
    assert caught.value.__context__ is None
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    ours = [frame.f_code.co_name for frame in frames if "statebox" in frame.f_code.co_filename]
    assert ours[-1] == "open"  # of the box, which has no more than what it was given


# --- threads and processes ----------------------------------------------------------------------


@each_alg
def test_one_box_serves_many_threads(alg: str) -> None:
    here = box(alg)
    together = threading.Barrier(4)

    def work(number: int) -> list[str]:
        together.wait()
        who = f"user {number}"
        tokens: list[str] = []
        for turn in range(100):
            tokens.append(here.seal([number, turn], principal=who, request=REQUEST))
            assert here.open(tokens[-1], principal=who, request=REQUEST).state == [number, turn]
            with pytest.raises(PrincipalError):
                here.open(tokens[-1], principal="another", request=REQUEST)
        return tokens

    with ThreadPoolExecutor(4) as pool:
        tokens = [token for part in pool.map(work, range(4)) for token in part]
    assert len(set(tokens)) == 400


def _seal_in_a_child(here: Statebox, pipe: Any) -> None:
    pipe.send([sealed(here, number) for number in range(20)])


@each_alg
def test_forked_processes_share_keys_and_no_randomness(alg: str) -> None:
    """A generator whose state is copied by fork would repeat an iv."""
    here = box(alg)
    sealed(here)
    context = multiprocessing.get_context("fork")
    ends = [context.Pipe() for _ in range(3)]
    children = [context.Process(target=_seal_in_a_child, args=(here, end)) for _, end in ends]
    for child in children:
        child.start()
    tokens = [token for mine, _ in ends for token in mine.recv()]
    for child in children:
        child.join()
        assert child.exitcode == 0
    turns = [opened(here, token) for token in tokens]
    assert len({turn.flow for turn in turns}) == len({turn.token_id for turn in turns}) == 60


class Text(str):
    """What a framework hands over as text, as markupsafe and some settings libraries do."""

    __slots__ = ()


def test_a_token_in_a_kind_of_text_is_read_as_its_text() -> None:
    token = sealed(box())
    turn = opened(box(), Text(token))
    assert (turn.state, turn.token_id) == ("s", opened(box(), token).token_id)
    with pytest.raises(OpenError):
        opened(box(), Text(token + " "))


def test_any_object_for_a_token_raises_only_an_open_error() -> None:
    tokens: list[object] = [None, 5, b"sb1.AAAA", [], "\ud800" * 9, "sb1." + "A" * 99_999]
    for token in tokens:
        with pytest.raises(OpenError):
            opened(box(), cast("str", token))

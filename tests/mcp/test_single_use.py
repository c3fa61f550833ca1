"""The boundary with a guard: each state once, and with `remember=` its first answer again."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ErrorData, InputRequiredResult, TextContent

from statebox import GuardUnavailableError, Keyring, Request, Statebox
from statebox.events import Event, GuardFailed, Opened, Recalled, Rejected, Sealed
from statebox.mcp import StateboxBoundary
from statebox.mcp.once import BoxVault
from statebox.replay import MemoryGuard
from tests.mcp.rounds import (
    CALL,
    REFUND,
    STATE,
    Clock,
    Handler,
    code,
    context,
    failure,
    paused,
    refusal,
    state_of,
)

DONE: dict[str, Any] = {"content": [{"type": "text", "text": "refunded"}], "resultType": "complete"}


@pytest.fixture
def guard(clock: Clock) -> MemoryGuard:
    return MemoryGuard(clock=clock)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def watched(ring: Keyring, clock: Clock, events: list[Event]) -> Statebox:
    return Statebox(ring, audience="billing", clock=clock, on_event=events.append)


async def test_a_state_is_accepted_once(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box, guard=guard)
    token = await state_of(boundary, context())
    handler = Handler(DONE)
    assert await boundary(context(state=token), handler) == DONE
    record = await refusal(boundary, context(state=token), caplog)
    assert code(record) == "replayed"
    assert record.__dict__["statebox_flow"] == flow_of(box, token)
    assert len(handler.seen) == 1


def flow_of(box: Statebox, token: str) -> str:
    return box.open(token, principal=None, request=CALL).flow


async def test_a_state_is_spent_before_its_handler_runs(box: Statebox, guard: MemoryGuard) -> None:
    boundary = StateboxBoundary(box, guard=guard)
    token = await state_of(boundary, context())
    inner: list[object] = []

    async def present_again(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        with pytest.raises(MCPError) as caught:
            await boundary(context(state=token), Handler(DONE))
        inner.append(caught.value.code)
        return DONE

    assert await boundary(context(state=token), present_again) == DONE
    assert inner == [-32602]


async def test_of_many_presenters_at_once_one_is_served(box: Statebox, guard: MemoryGuard) -> None:
    boundary = StateboxBoundary(box, guard=guard)
    token = await state_of(boundary, context())
    handler = Handler(DONE)
    answers = await asyncio.gather(
        *(boundary(context(state=token), handler) for _ in range(20)), return_exceptions=True
    )
    assert answers.count(DONE) == 1
    assert len(handler.seen) == 1
    assert [each.code for each in answers if isinstance(each, MCPError)] == [-32602] * 19


async def test_a_state_that_fails_another_check_is_not_spent(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box, guard=guard)
    token = await state_of(boundary, context())
    other = context(REFUND | {"arguments": {"order": "ORD-7002"}}, state=token)
    assert code(await refusal(boundary, other, caplog)) == "request"
    assert await boundary(context(state=token), Handler(DONE)) == DONE


async def test_each_round_of_a_flow_is_spent_by_itself(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box, guard=guard)
    first = await state_of(boundary, context())
    second = await state_of(boundary, context(state=first))
    assert code(await refusal(boundary, context(state=first), caplog)) == "replayed"
    assert await boundary(context(state=second), Handler(DONE)) == DONE


async def test_a_handler_that_fails_has_had_its_turn(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box, guard=guard)
    token = await state_of(boundary, context())
    with pytest.raises(LookupError):
        await boundary(context(state=token), failing(LookupError("no such order")))
    assert code(await refusal(boundary, context(state=token), caplog)) == "replayed"


def failing(
    error: Exception,
) -> Callable[[ServerRequestContext[Any, Any]], "asyncio.Future[HandlerResult]"]:
    def handler(ctx: ServerRequestContext[Any, Any]) -> "asyncio.Future[HandlerResult]":
        answer: asyncio.Future[HandlerResult] = asyncio.get_running_loop().create_future()
        answer.set_exception(error)
        return answer

    return handler


async def test_a_predicate_tells_which_tools_are_single_use(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Request] = []

    def refunds(request: Request) -> bool:
        asked.append(request)
        return request.target == "refund"

    boundary = StateboxBoundary(box, guard=guard, single_use=refunds)
    token = await state_of(boundary, context())
    other: dict[str, Any] = {"name": "look"}
    look = await state_of(boundary, context(other))
    for _ in range(2):
        assert await boundary(context(other, state=look), Handler(DONE)) == DONE
    assert await boundary(context(state=token), Handler(DONE)) == DONE
    assert code(await refusal(boundary, context(state=token), caplog)) == "replayed"
    assert asked == [Request("tools/call", "look")] * 2 + [CALL] * 2


async def test_a_predicate_that_raises_means_single_use(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: Request) -> bool:
        raise LookupError(request.target)

    boundary = StateboxBoundary(box, guard=guard, single_use=broken)
    token = await state_of(boundary, context())
    assert await boundary(context(state=token), Handler(DONE)) == DONE
    assert "taken as single use" in caplog.text
    with pytest.raises(MCPError):
        await boundary(context(state=token), Handler(DONE))


class Down:
    """A store that is down: as a guard, or only for answers."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        raise GuardUnavailableError("the store is down")

    async def put(self, token_id: str, answer: bytes, expires_at: int) -> None:
        raise OSError("connection refused")

    async def get(self, token_id: str) -> bytes | None:
        raise OSError("connection refused")


async def test_a_guard_that_is_down_refuses_and_is_told(
    watched: Statebox, events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(watched, guard=Down())
    token = await state_of(boundary, context())
    record = await refusal(boundary, context(state=token), caplog)
    assert code(record) == "guard_unavailable"
    sealed, opened, failed, rejected = events
    assert isinstance(sealed, Sealed)
    assert isinstance(opened, Opened)
    assert failed == GuardFailed(guard="Down", reason="the store is down")
    assert rejected == Rejected(
        code="guard_unavailable",
        size=len(token),
        key_id=opened.key_id,
        token_id=opened.token_id,
        flow=sealed.flow,
        round=1,
        age=0,
        method="tools/call",
        target="refund",
    )


async def test_a_second_presenter_is_told_apart_in_events(
    watched: Statebox, guard: MemoryGuard, events: list[Event]
) -> None:
    boundary = StateboxBoundary(watched, guard=guard)
    token = await state_of(boundary, context())
    await boundary(context(state=token), Handler(DONE))
    with pytest.raises(MCPError):
        await boundary(context(state=token), Handler(DONE))
    assert [type(event).__name__ for event in events] == ["Sealed", "Opened", "Opened", "Rejected"]
    assert {getattr(event, "flow", None) for event in events} == {flow_of(watched, token)}


async def test_with_remember_a_state_that_comes_again_gets_the_first_answer(
    watched: Statebox, guard: MemoryGuard, events: list[Event]
) -> None:
    boundary = StateboxBoundary(watched, guard=guard, remember=guard)
    token = await state_of(boundary, context())
    handler = Handler(DONE | {"_meta": {"n": 1}})
    first = await boundary(context(state=token), handler)
    handler.result = DONE | {"_meta": {"n": 2}}
    assert await boundary(context(state=token), handler) == first
    assert len(handler.seen) == 1
    turn = watched.open(token, principal=None, request=CALL)
    assert events[3] == Recalled(
        token_id=turn.token_id, flow=turn.flow, round=1, method="tools/call", target="refund"
    )
    # Sealing the answer is no event of a state.
    assert [type(event).__name__ for event in events[:4]] == [
        *("Sealed", "Opened", "Opened", "Recalled")
    ]


async def test_with_remember_another_user_or_request_gets_no_answer(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    users = ["alice"]
    boundary = StateboxBoundary(box, guard=guard, remember=guard, principal=lambda ctx: users[0])
    token = await state_of(boundary, context())
    await boundary(context(state=token), Handler(DONE))
    other = context(REFUND | {"arguments": None}, state=token)
    assert code(await refusal(boundary, other, caplog)) == "request"
    users[0] = "bob"
    assert code(await refusal(boundary, context(state=token), caplog)) == "principal"


async def test_with_remember_an_answer_ends_with_its_token(
    box: Statebox, guard: MemoryGuard, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    token = await state_of(boundary, context())
    await boundary(context(state=token), Handler(DONE))
    clock.now += 599
    assert await boundary(context(state=token), Handler()) == DONE
    clock.now += 1
    assert code(await refusal(boundary, context(state=token), caplog)) == "expired"


async def test_with_remember_the_next_question_is_asked_again_with_the_same_state(
    box: Statebox, guard: MemoryGuard
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    first = await state_of(boundary, context())
    second = await boundary(context(state=first), Handler(paused(STATE)))
    assert await boundary(context(state=first), Handler()) == second
    model = await boundary(context(), Handler(InputRequiredResult(request_state=STATE)))
    assert isinstance(model, InputRequiredResult)


@pytest.mark.parametrize(
    ("result", "wire"),
    [
        (None, None),
        (
            CallToolResult(content=[TextContent(text="done")]),
            {
                "content": [{"type": "text", "text": "done"}],
                "isError": False,
                "resultType": "complete",
            },
        ),
    ],
    ids=["none", "model"],
)
async def test_with_remember_an_answer_of_any_kind_is_given_again(
    box: Statebox, guard: MemoryGuard, result: HandlerResult, wire: object
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    token = await state_of(boundary, context())
    assert await boundary(context(state=token), Handler(result)) is result
    assert await boundary(context(state=token), Handler({"never": "given"})) == wire


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            MCPError(code=-32000, message="no funds", data={"missing": 5}),
            ErrorData(code=-32000, message="no funds", data={"missing": 5}),
        ),
        (LookupError("secret"), ErrorData(code=-32603, message="Internal server error")),
    ],
    ids=["of the server's", "by accident"],
)
async def test_with_remember_a_failure_is_an_answer_too(
    box: Statebox, guard: MemoryGuard, error: Exception, told: ErrorData
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    token = await state_of(boundary, context())
    with pytest.raises(type(error)):
        await boundary(context(state=token), failing(error))
    handler = Handler(DONE)
    with pytest.raises(MCPError) as caught:
        await boundary(context(state=token), handler)
    assert caught.value.error == told
    assert handler.seen == []


class Slow:
    """A handler that says when it has begun, and waits until it may go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        self.begun.set()
        await self.go_on.wait()
        return DONE


async def test_with_remember_a_second_presenter_waits_for_the_first_ones_answer(
    box: Statebox, guard: MemoryGuard
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    token = await state_of(boundary, context())
    slow = Slow()
    first = asyncio.create_task(boundary(context(state=token), slow))
    await slow.begun.wait()
    again = [asyncio.create_task(boundary(context(state=token), Handler())) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(task.done() for task in again)
    slow.go_on.set()
    assert await asyncio.gather(first, *again) == [DONE] * 4


async def test_with_remember_a_wait_that_is_over_ends_in_a_refusal(
    box: Statebox, guard: MemoryGuard, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard, wait=0)
    token = await state_of(boundary, context())

    async def meanwhile(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        assert code(await refusal(boundary, context(state=token), caplog)) == "replayed"
        return DONE

    assert await boundary(context(state=token), meanwhile) == DONE
    assert await boundary(context(state=token), Handler()) == DONE


async def test_with_remember_a_client_that_hangs_up_cancels_nothing(
    box: Statebox, guard: MemoryGuard
) -> None:
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    token = await state_of(boundary, context())
    slow = Slow()
    async with anyio.create_task_group() as group:
        group.start_soon(boundary, context(state=token), slow)
        await slow.begun.wait()
        group.cancel_scope.cancel()
        slow.go_on.set()
    assert await boundary(context(state=token), Handler()) == DONE


async def test_what_is_kept_is_sealed_and_opens_as_nothing_else(
    guard: MemoryGuard, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    box = Statebox(Keyring.generate(now=clock.now), audience="billing", clock=clock)
    boundary = StateboxBoundary(box, guard=guard, remember=guard)
    tokens = [await state_of(boundary, context()) for _ in range(2)]
    for token in tokens:
        await boundary(context(state=token), Handler(DONE))
    turns = [box.open(token, principal=None, request=CALL) for token in tokens]
    kept = [await guard.get(turn.token_id) for turn in turns]
    assert kept[0] is not None
    assert kept[1] is not None
    assert b"refunded" not in kept[0]
    # Presented as a state.
    assert code(await refusal(boundary, context(state=kept[0].decode()), caplog)) == "audience"
    # Put in the place of another token's answer by whoever may write to the store.
    other = MemoryGuard(clock=clock)
    assert await other.consume(turns[0].token_id, turns[0].expires_at)
    await other.put(turns[0].token_id, kept[1], turns[0].expires_at)
    confused = StateboxBoundary(box, guard=other, remember=other)
    record = await refusal(confused, context(state=tokens[0]), caplog)
    assert code(record) == "guard_unavailable"
    assert "bound to another request" in record.message


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"content": ["x" * 70_000]}, "the token would have"),
        ({"content": [object()]}, "TypeError"),
    ],
    ids=["too large", "not json"],
)
async def test_an_answer_that_cannot_be_kept_is_given_once(
    watched: Statebox,
    guard: MemoryGuard,
    events: list[Event],
    caplog: pytest.LogCaptureFixture,
    result: HandlerResult,
    reason: str,
) -> None:
    boundary = StateboxBoundary(watched, guard=guard, remember=guard, wait=0)
    token = await state_of(boundary, context())
    assert await boundary(context(state=token), Handler(result)) is result
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert reason in record.message
    assert isinstance(events[-1], GuardFailed)
    assert code(await refusal(boundary, context(state=token), caplog)) == "replayed"


async def test_a_store_of_answers_that_is_down_loses_no_first_answer(
    watched: Statebox,
    guard: MemoryGuard,
    events: list[Event],
    caplog: pytest.LogCaptureFixture,
) -> None:
    boundary = StateboxBoundary(watched, guard=guard, remember=Down())
    token = await state_of(boundary, context())
    assert await boundary(context(state=token), Handler(DONE)) == DONE
    assert "is not kept: OSError" in caplog.text
    record = await refusal(boundary, context(state=token), caplog)
    assert code(record) == "guard_unavailable"
    assert events.count(GuardFailed(guard="Down", reason="OSError")) == 2


async def test_a_lifetime_can_be_set_by_target(ring: Keyring, clock: Clock) -> None:
    box = Statebox(ring, audience="billing", clock=clock, ttl=60)
    boundary = StateboxBoundary(box, ttl={"refund": 3600})
    lives: list[int] = []
    for params in (REFUND, {"name": "other"}):
        request = Request.from_params("tools/call", params)
        token = await state_of(boundary, context(params))
        turn = box.open(token, principal=None, request=request)
        lives.append(turn.expires_at - turn.issued_at)
    assert lives == [3600, 60]


async def test_a_lifetime_never_outlives_the_flow(ring: Keyring, clock: Clock) -> None:
    box = Statebox(ring, audience="billing", clock=clock, max_flow_age=900)
    boundary = StateboxBoundary(box, ttl={"refund": 800})
    first = await state_of(boundary, context())
    clock.now += 700
    second = await state_of(boundary, context(state=first))
    turn = box.open(second, principal=None, request=CALL)
    assert (turn.round, turn.expires_at) == (2, turn.deadline)


@pytest.mark.parametrize("ttl", [3601, 0, float("nan"), float("inf")])
def test_a_lifetime_that_cannot_be_is_found_at_the_start(box: Statebox, ttl: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        StateboxBoundary(box, ttl={"refund": ttl})


class Shrinking:
    """A source whose ring comes to allow shorter lifetimes."""

    def __init__(self, ring: Keyring) -> None:
        self.ring = ring

    def current(self) -> Keyring:
        return self.ring

    def reread(self) -> Keyring:
        return self.ring


async def test_a_lifetime_that_a_later_ring_forbids_seals_nothing(
    ring: Keyring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    source = Shrinking(ring)
    box = Statebox(source, audience="billing", clock=clock)
    boundary = StateboxBoundary(box, ttl={"refund": 3600})
    source.ring = Keyring(ring, max_ttl=600)
    record = await failure(boundary, context(), caplog, paused(STATE))
    assert code(record) == "keyring"
    assert "over the keyring's max_ttl of 600 s" in record.message


async def test_a_state_that_cannot_be_sealed_is_logged_with_its_flow(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    record = await failure(boundary, context(state=token), caplog, paused(7))
    assert record.__dict__["statebox_flow"] == flow_of(box, token)


@pytest.mark.parametrize("option", ["single_use", "remember"])
def test_an_option_that_needs_a_guard_is_refused_without_one(
    box: Statebox, guard: MemoryGuard, option: str
) -> None:
    value: Any = {"single_use": bool, "remember": guard}[option]
    with pytest.raises(ValueError, match="need a guard="):
        StateboxBoundary(box, **{option: value})


def test_an_answer_that_comes_after_the_end_of_its_state_is_kept_all_the_same(
    box: Statebox, clock: Clock
) -> None:
    """A handler that took longer than its state lived has still been run, once."""
    turn = box.open(box.seal(STATE, principal=None, request=CALL), principal=None, request=CALL)
    clock.now = turn.expires_at + 5
    vault = BoxVault(box)
    assert vault.open(vault.seal("the answer", turn), turn) == "the answer"

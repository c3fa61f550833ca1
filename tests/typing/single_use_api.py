"""What type checkers see of guards, events and hooks. Checked by mypy and pyright, never run."""

from pathlib import Path
from typing import assert_type

from statebox import Continuation, Request, Statebox, otel
from statebox.events import Event, Hook, Rejected, log_event
from statebox.mcp import SingleUse, StateboxBoundary
from statebox.mcp.fastmcp import SingleUse as FastMCPSingleUse
from statebox.replay import (
    AnswerStore,
    MemoryGuard,
    RedisGuard,
    ReplayGuard,
    SQLiteGuard,
    spend,
)
from statebox.testing import check_replay_guard, check_replay_guard_fails_closed


class Mine:
    """A guard of a user's."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        raise NotImplementedError


class Synchronous:
    """No guard: its answer cannot be awaited."""

    def consume(self, token_id: str, expires_at: int) -> bool:
        raise NotImplementedError


def guards(path: Path, url: str) -> list[ReplayGuard]:
    return [Mine(), MemoryGuard(), SQLiteGuard(path), RedisGuard(url, durable=True)]


def stores(path: Path, url: str) -> list[AnswerStore]:
    return [MemoryGuard(), SQLiteGuard(path), RedisGuard(url)]


async def spending(box: Statebox, turn: Continuation) -> None:
    assert_type(await spend(Mine(), turn, on_event=box.on_event), None)
    await spend(Synchronous(), turn)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await check_replay_guard(Mine)
    await check_replay_guard_fails_closed(Mine())


def refunds(request: Request) -> bool:
    return request.target == "refund"


def servers(box: Statebox, guard: MemoryGuard) -> None:
    StateboxBoundary(box, guard=guard, single_use=refunds, remember=guard, ttl={"refund": 3600})
    StateboxBoundary(box, guard=guard, remember=Mine())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SingleUse(guard, single_use=refunds, remember=guard)
    FastMCPSingleUse(guard, single_use=refunds)


def hooks(event: Event) -> list[Hook]:
    if isinstance(event, Rejected):
        assert_type((event.code, event.flow, event.age), tuple[str, str | None, float | None])
    seen: list[Event] = []
    return [log_event, seen.append, print, otel.hook()]

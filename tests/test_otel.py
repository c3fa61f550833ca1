"""statebox.otel: what a reader sees after one failure of each kind is what docs/metrics.md says."""

import dataclasses
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from mcp.shared.exceptions import MCPError
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, InMemoryMetricReader, Sum
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from statebox import (
    Keyring,
    KeyringError,
    OpenError,
    Request,
    SealError,
    Statebox,
    StateboxError,
)
from statebox.events import Event, Hook, Sealed
from statebox.keys import Revocation
from statebox.mcp import StateboxBoundary, protect
from statebox.otel import hook
from statebox.replay import MemoryGuard
from statebox.sealer import WEARING, Sealer
from statebox.sources import open_source
from tests.mcp.rounds import Handler, context, state_of
from tests.mcp.servers.kinds import mcp_server
from tests.mcp.test_fastmcp import NAME, call, served
from tests.samples import DAY, NOW, REQUEST, Clock, box, key, ring

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
Row = tuple[str, str, str, frozenset[str]]


class Down:
    """A guard whose store is down."""

    async def consume(self, token_id: str, expires_at: int) -> bool:
        raise OSError("connection refused")


def subclasses(error: type[StateboxError]) -> Iterator[type[StateboxError]]:
    for each in error.__subclasses__():
        yield each
        yield from subclasses(each)


CODES = {each.code for each in subclasses(OpenError)} - {"claim"}


def refuse_once_each(on_event: Hook) -> None:
    """Let each check of `open` but single use fail once."""
    clock = Clock()
    watched = box(clock=clock, on_event=on_event)
    token = watched.seal(1, principal="alice", request=REQUEST)
    follows = watched.open(token, principal="alice", request=REQUEST)
    second = watched.seal(2, principal="alice", request=REQUEST, after=follows)
    revoked = key(revoked=Revocation(NOW))
    wrong: list[tuple[Statebox, str]] = [
        (watched, "sb1.AAAA"),
        (watched, "x" * 70_000),
        (watched, token[:-8] + ("B" if token[-8] == "A" else "A") + token[-7:]),
        (box([key("key-2")], on_event=on_event), token),
        (box([revoked, key("key-2", nbf=NOW - 1)], on_event=on_event), token),
        (box([key(exp=NOW), key("key-2", nbf=NOW - 1)], on_event=on_event), token),
        (box(audience="shipping", on_event=on_event), token),
        (box(clock=Clock(NOW - DAY), on_event=on_event), token),
        (box(clock=Clock(NOW + DAY), on_event=on_event), token),
        (box(max_rounds=1, on_event=on_event), second),
    ]
    for a_box, text in wrong:
        with pytest.raises(OpenError):
            a_box.open(text, principal="alice", request=REQUEST)
    with pytest.raises(OpenError):
        watched.open(token, principal="mallory", request=REQUEST)
    with pytest.raises(OpenError):
        watched.open(token, principal="alice", request=Request("a method of the client's", "x"))


def fail_to_seal(on_event: Hook) -> None:
    """Let sealing fail in each way once."""
    clock = Clock()
    watched = box(clock=clock, max_rounds=1, on_event=on_event)
    turn = watched.open(watched.seal(1, principal=None, request=None), principal=None, request=None)
    early = box([key(nbf=NOW + DAY)], on_event=on_event)
    longer = box(clock=clock, on_event=on_event)
    attempts: list[Callable[[], object]] = [
        lambda: watched.seal("x" * 70_000, principal=None, request=REQUEST),
        lambda: watched.seal({1, 2}, principal=None, request=REQUEST),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        lambda: watched.seal(1, principal=None, request=REQUEST, after=turn),
        lambda: early.seal(1, principal=None, request=REQUEST),
        lambda: longer.seal(1, principal=None, request=REQUEST, after=turn),
    ]
    clock.now += DAY
    for attempt in attempts:
        with pytest.raises((SealError, KeyringError)):
            attempt()


def change_the_keyring(on_event: Hook, folder: Path) -> None:
    """Let a file give another ring, and then none."""
    path = folder / "keyring.json"
    path.touch(mode=0o600)
    path.write_text(ring().to_json())
    clock = Clock()
    source = open_source(str(path), on_event=on_event, monotonic=clock)
    for text in (Keyring([key(), key("key-2", nbf=NOW)]).to_json(), "broken"):
        path.write_text(text)
        clock.now += 60
        source.current()


def wear_a_key_out(on_event: Hook) -> None:
    """Let a key come half-way to its limit."""
    sealer = Sealer(ring(), clock=Clock(), on_event=on_event)
    slot = sealer.active(NOW)
    slot.uses = WEARING - 1
    sealer.seal(slot, b"", bytes(12))


async def present_twice(on_event: Hook) -> None:
    """Let a state come again, without and with an answer to give, and to a guard that is down."""
    watched, guard = box(on_event=on_event), MemoryGuard(clock=Clock())
    for boundary in (
        StateboxBoundary(watched, guard=guard),
        StateboxBoundary(watched, guard=guard, remember=guard),
        StateboxBoundary(watched, guard=Down()),
    ):
        token = await state_of(boundary, context())
        for _ in range(2):
            with suppress(MCPError):
                await boundary(context(state=token), Handler({"content": []}))


async def everything_happens(on_event: Hook, folder: Path) -> None:
    """Let each kind of event happen, and each code of a refusal or a failure."""
    refuse_once_each(on_event)
    fail_to_seal(on_event)
    change_the_keyring(on_event, folder)
    wear_a_key_out(on_event)
    await present_twice(on_event)


def table(heading: str) -> list[list[str]]:
    """Give the rows of the first table under a heading of the page, cell by cell."""
    section = PAGE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def marked(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def documented() -> set[Row]:
    """Give the page's table of metrics."""
    return {
        (marked(name)[0], instrument, marked(unit)[0], frozenset(marked(attributes)))
        for name, instrument, unit, attributes in (row for row in table("Metrics") if len(row) == 4)
    }


def metrics_of(reader: InMemoryMetricReader) -> dict[str, Any]:
    """Give each metric that a reader sees, by its name."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def seen(reader: InMemoryMetricReader) -> set[Row]:
    """Give what a reader sees, in the form of the page's table."""
    rows: set[Row] = set()
    for name, metric in metrics_of(reader).items():
        if isinstance(metric.data, Sum):
            assert metric.data.is_monotonic
            instrument = "counter"
        else:
            assert isinstance(metric.data, Histogram)
            instrument = "histogram"
        keys = frozenset(
            each for point in metric.data.data_points for each in point.attributes or ()
        )
        rows.add((name, instrument, metric.unit, keys))
    return rows


def values(reader: InMemoryMetricReader, metric: str, attribute: str) -> Counter[str]:
    """Count what a counter counted, by the value of one attribute."""
    counted = Counter[str]()
    for point in metrics_of(reader)[metric].data.data_points:
        counted[str(point.attributes.get(attribute))] += point.value
    return counted


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def on_event(reader: InMemoryMetricReader) -> Hook:
    return hook(MeterProvider(metric_readers=[reader]))


async def test_a_reader_sees_the_metrics_that_the_page_lists(
    reader: InMemoryMetricReader, on_event: Hook, tmp_path: Path
) -> None:
    await everything_happens(on_event, tmp_path)
    assert seen(reader) == documented()
    assert len(documented()) == 11


async def test_each_failure_is_counted_under_its_code(
    reader: InMemoryMetricReader, on_event: Hook, tmp_path: Path
) -> None:
    await everything_happens(on_event, tmp_path)
    refused = values(reader, "statebox.tokens.rejected", "error.type")
    # No token opens after its flow's deadline: its own end comes first.
    assert refused == dict.fromkeys(CODES - {"flow_expired"}, 1) | {"guard_unavailable": 2}
    assert values(reader, "statebox.seal.failures", "error.type") == dict.fromkeys(
        ("too_large", "unsupported_state", "too_many_rounds", "keyring", "flow_expired"), 1
    )
    assert values(reader, "statebox.guard.failures", "statebox.guard.type") == {"Down": 2}
    assert values(reader, "statebox.tokens.recalled", "mcp.method.name") == {"tools/call": 1}


async def test_attributes_stay_few_whatever_a_client_sends(
    reader: InMemoryMetricReader, on_event: Hook
) -> None:
    watched = box(on_event=on_event)
    for i in range(50):
        request = Request(f"method/{i}", f"target {i}")
        watched.seal(1, principal=f"user {i}", request=request)
        with pytest.raises(OpenError):
            watched.open(f"sb1.{i:04}", principal=None, request=request)
    for name in ("statebox.tokens.sealed", "statebox.tokens.rejected"):
        (point,) = metrics_of(reader)[name].data.data_points
        assert point.value == 50
        assert point.attributes["mcp.method.name"] == "_OTHER"


def test_sizes_and_ages_are_measured(reader: InMemoryMetricReader, on_event: Hook) -> None:
    clock = Clock()
    watched = box(clock=clock, on_event=on_event)
    token = watched.seal(1, principal=None, request=None)
    clock.now += 7
    watched.open(token, principal=None, request=None)
    clock.now += 600
    with pytest.raises(OpenError):
        watched.open(token, principal=None, request=None)
    (size,) = metrics_of(reader)["statebox.token.size"].data.data_points
    assert (size.count, size.sum) == (1, len(token))
    ages = metrics_of(reader)["statebox.token.age"].data.data_points
    assert {point.attributes.get("error.type"): point.sum for point in ages} == {
        None: 7,
        "expired": 607,
    }


async def test_every_event_happens_and_the_page_lists_its_fields(tmp_path: Path) -> None:
    events: list[Event] = []
    await everything_happens(events.append, tmp_path)
    assert {type(event) for event in events} == set(get_args(Event))
    assert {
        marked(name)[0]: marked(fields) for name, _, fields in (row for row in table("Events"))
    } == {
        event.__name__: [field.name for field in dataclasses.fields(event)]
        for event in get_args(Event)
    }


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    # The SDK's spans come from the global provider, which a process can set once.
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Callable[[], Sequence[ReadableSpan]]:
    exporter.clear()
    return lambda: [
        span for span in exporter.get_finished_spans() if span.name == "tools/call refund"
    ]


async def test_the_sdks_spans_tell_what_became_of_a_flow(
    spans: Callable[[], Sequence[ReadableSpan]],
) -> None:
    events: list[Event] = []
    mark = hook(MeterProvider())

    def both(event: Event) -> None:
        events.append(event)
        mark(event)

    server = mcp_server()
    guard = MemoryGuard()
    a_box = Statebox(Keyring.generate(), audience="billing", on_event=both)
    protect(server, a_box, guard=guard)
    async with served(server.streamable_http_app()) as client:
        first = (await call(client))["result"]["requestState"]
        second = (await call(client, requestState=first, inputResponses=NAME))["result"]
        await call(client, requestState=second["requestState"], inputResponses=NAME)
        await call(client, requestState=first, inputResponses=NAME)
        await call(client, requestState="sb1.AAAA")
    sealed = events[0]
    assert isinstance(sealed, Sealed)
    told = [
        {
            name.removeprefix("statebox."): value
            for name, value in (span.attributes or {}).items()
            if name.startswith("statebox.")
        }
        for span in spans()
    ]
    flow = {"flow": sealed.flow, "key_id": sealed.key_id}
    assert told == [
        {"outcome": "sealed", **flow, "round": 1},
        {"outcome": "sealed", **flow, "round": 2},
        {"outcome": "opened", **flow, "round": 2},
        {"outcome": "replayed", **flow, "round": 1},
        {"outcome": "malformed"},
    ]
    assert {f"statebox.{name}" for each in told for name in each} == {
        marked(row[0])[0] for row in table("Spans")
    }


def test_without_a_provider_nothing_is_measured_and_nothing_fails() -> None:
    watched = box(on_event=hook())
    watched.open(watched.seal(1, principal=None, request=None), principal=None, request=None)


def test_without_the_extra_the_error_names_it() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; sys.modules['opentelemetry'] = None; import statebox.otel",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert 'pip install "statebox[otel]"' in done.stderr.splitlines()[-1]

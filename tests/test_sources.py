"""statebox.sources: when a live ring is looked at again, by whom, and what happens if that fails."""

import asyncio
import gc
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import ClassVar

import pytest

from statebox import Keyring, KeyringError, Statebox, UnknownKeyError
from statebox.events import Event, KeyringFailed, KeyringReloaded
from statebox.sources import LiveSource, live, open_source
from statebox.sources.address import reader_of
from tests.samples import AUDIENCE, NOW, Clock, key, ring

ONE = Keyring([key("one")])
TWO = Keyring([key("one"), key("two", nbf=NOW - 60)])
WAIT = 60.0  # seconds after which a test that hangs fails


class Place:
    """A place to read from that counts, fails and waits as it is told."""

    interval: ClassVar[float] = 10.0
    reread_interval: ClassVar[float] = 2.0
    slow: ClassVar[bool] = False

    def __init__(self, text: str = ONE.to_json()) -> None:
        self.name = "place:1"
        self.text = text
        self.reads = 0
        self.meanwhile: Callable[[], object] = bool
        self.failure: KeyringError | None = None

    def version(self) -> object:
        return None if self.failure else self.text

    def read(self) -> str:
        self.reads += 1
        self.meanwhile()
        if self.failure:
            raise self.failure
        return self.text


class SlowPlace(Place):
    """The same, of the slow kind, whose every read after the first waits until it is let go."""

    slow: ClassVar[bool] = True

    def __init__(self, text: str = ONE.to_json()) -> None:
        super().__init__(text)
        self.begun: Queue[None] = Queue()
        self.go = threading.Semaphore(0)

    def version(self) -> object:
        return None

    def read(self) -> str:
        if self.reads:
            self.begun.put(None)
            assert self.go.acquire(timeout=WAIT)
        return super().read()


def events_of(place: Place, clock: Clock) -> tuple[LiveSource, Queue[Event]]:
    events: Queue[Event] = Queue()
    return LiveSource(place, on_event=events.put, monotonic=clock), events


def test_the_place_is_read_at_the_start_and_then_when_a_look_is_due() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = TWO.to_json()
    clock.now += 9.9
    assert (source.current(), place.reads) == (ONE, 1)
    clock.now += 0.1
    assert (source.current(), place.reads) == (TWO, 2)
    clock.now += 9.9
    place.text = ONE.to_json()
    assert source.current() == TWO


def test_a_place_that_did_not_change_is_not_read_again() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    for _ in range(5):
        clock.now += 100
        source.current()
    assert place.reads == 1


def test_the_interval_can_be_chosen() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, interval=1, monotonic=clock)
    place.text = TWO.to_json()
    clock.now += 1
    assert source.current() == TWO


def test_an_equal_ring_does_not_take_the_place_of_the_one_in_use() -> None:
    place, clock = Place(), Clock()
    source, events = events_of(place, clock)
    first = source.current()
    place.text = json.dumps(ONE.to_jwks(), indent=7)
    clock.now += 10
    assert source.current() is first
    assert (place.reads, events.empty()) == (2, True)


def test_a_source_without_a_usable_ring_at_the_start_fails_loudly() -> None:
    place = Place("{")
    with pytest.raises(KeyringError, match="place:1 is not JSON"):
        LiveSource(place)
    place.failure = KeyringError("gone", hint="Look.")
    with pytest.raises(KeyringError, match="gone"):
        LiveSource(place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "place:1 is not JSON"),
        (ONE.to_json()[:-20], "place:1 is not JSON"),
        ('{"keys": []}', "place:1: the keyring has no key"),
        ("[]", "place:1: a keyring is a JSON object"),
    ],
)
def test_a_source_that_turns_malformed_keeps_the_last_good_ring_and_recovers_by_itself(
    text: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, clock = Place(), Clock()
    source, events = events_of(place, clock)
    caplog.set_level(logging.INFO, "statebox.sources")
    first = source.current()
    place.text = text
    for _ in range(5):
        clock.now += 10
        assert source.current() is first
    failed = events.get_nowait()
    assert isinstance(failed, KeyringFailed)
    assert (failed.source, failed.message[: len(message)]) == ("place:1", message)
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # once, not five times

    place.text = ONE.to_json()
    clock.now += 10
    assert source.current() is first  # equal, so what was derived from it stays
    assert events.get_nowait() == KeyringReloaded(source="place:1", key_ids=("one",))
    assert events.empty()
    assert caplog.messages[-1] == "place:1 gave keys one"


def test_another_failure_is_said_as_well() -> None:
    place, clock = Place(), Clock()
    source, events = events_of(place, clock)
    for message in ("gone", "gone", "locked", "gone"):
        place.failure = KeyringError(message)
        clock.now += 10
        source.current()
    said = [events.get_nowait() for _ in range(events.qsize())]
    assert [event.message for event in said if isinstance(event, KeyringFailed)] == [
        "gone",
        "locked",
        "gone",
    ]


def test_what_fails_is_read_again_at_every_look_even_if_it_did_not_change() -> None:
    """A mount can turn readable without a change of the file."""
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = "{"
    for _ in range(3):
        clock.now += 10
        source.current()
    assert place.reads == 4


def test_no_secret_reaches_the_log_or_an_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    place, clock = Place(), Clock()
    source, events = events_of(place, clock)
    for text in (TWO.to_json(), TWO.to_json()[:-9], ONE.to_json().replace('"k": "', '"k": "?')):
        place.text = text
        clock.now += 10
        source.current()
    said = caplog.text + "".join(repr(events.get_nowait()) for _ in range(events.qsize()))
    assert "place:1" in said
    for jwk in TWO.to_jwks()["keys"]:
        assert jwk["k"] not in said


def test_a_hook_that_raises_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    place, clock = Place(), Clock()

    def hook(_event: Event) -> None:
        raise RuntimeError

    source = LiveSource(place, on_event=hook, monotonic=clock)
    place.text = TWO.to_json()
    clock.now += 10
    assert source.current() == TWO
    assert "the on_event hook raised on KeyringReloaded" in caplog.text


def test_a_hook_may_use_the_source_that_calls_it() -> None:
    place, clock = Place(), Clock()
    seen: list[Keyring] = []

    def hook(_event: Event) -> None:
        seen.append(source.current())

    source = LiveSource(place, on_event=hook, monotonic=clock)
    place.text = TWO.to_json()
    clock.now += 10
    source.current()
    assert seen == [TWO]


def test_an_unknown_kid_looks_again_before_a_look_is_due() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = TWO.to_json()
    assert source.current() == ONE
    assert source.reread() == TWO


def test_made_up_kids_cannot_turn_into_a_storm_of_reads() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.failure = KeyringError("gone")
    for _ in range(1000):
        source.reread()
    assert place.reads == 2
    clock.now += 2
    source.reread()
    assert place.reads == 3


def test_one_caller_reads_and_the_others_go_on_with_the_ring_as_it_is() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = TWO.to_json()
    seen: list[Keyring] = []
    place.meanwhile = lambda: seen.append(source.current())
    clock.now += 10
    assert source.current() == TWO
    assert seen == [ONE]
    assert place.reads == 2


def test_an_unknown_kid_waits_for_the_read_that_another_caller_does() -> None:
    place, clock = SlowPlace(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = TWO.to_json()
    source.reread()  # begins, and gives up waiting
    place.begun.get(timeout=WAIT)
    place.go.release()
    # Rate-limited now; it still gets the ring, or a presenter who comes again does.
    while source.reread() != TWO:
        pass
    assert place.reads == 2


def test_a_slow_place_never_holds_up_who_seals() -> None:
    place, clock = SlowPlace(), Clock()
    source, events = events_of(place, clock)
    place.text = TWO.to_json()
    clock.now += 10
    assert source.current() == ONE  # returns although the read does not
    place.begun.get(timeout=WAIT)
    clock.now += 10
    assert source.current() == ONE
    assert place.begun.empty()  # one read at a time
    place.go.release()
    assert events.get(timeout=WAIT) == KeyringReloaded(source="place:1", key_ids=("one", "two"))
    assert source.current() == TWO


class TellingLock:
    """A lock that lets a slow place go on as soon as somebody waits for it."""

    place: SlowPlace

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.locked, self.release = self._lock.locked, self._lock.release

    def acquire(self, *, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout > 0:
            self.place.go.release()
        return self._lock.acquire(blocking, timeout)


def test_after_an_idle_time_a_slow_place_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that is hours old may seal under a key that has expired everywhere else."""
    monkeypatch.setattr(live, "PATIENCE", WAIT)
    instead = SimpleNamespace(Lock=TellingLock, Thread=threading.Thread)
    monkeypatch.setattr(live, "threading", instead)
    TellingLock.place = place = SlowPlace()
    clock = Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = TWO.to_json()
    clock.now += 3600
    assert source.current() == TWO


def test_a_thread_that_cannot_start_leaves_the_ring_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, clock = SlowPlace(), Clock()
    source, events = events_of(place, clock)
    place.text = TWO.to_json()

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        clock.now += 10
        assert source.current() == ONE
    clock.now += 10
    source.current()
    place.go.release()
    assert isinstance(events.get(timeout=WAIT), KeyringReloaded)


def test_threads_share_one_source() -> None:
    place, clock = Place(), Clock()
    source = LiveSource(place, monotonic=clock)
    start = threading.Barrier(8)
    wrong: list[Keyring] = []

    def use() -> None:
        start.wait()
        for _ in range(2000):
            clock.now += 1
            seen = source.current()
            if seen not in (ONE, TWO):
                wrong.append(seen)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        place.text = (TWO if place.text == ONE.to_json() else ONE).to_json()
    for thread in threads:
        thread.join()
    assert wrong == []
    place.text = TWO.to_json()
    clock.now += 10
    assert source.current() == TWO


async def test_tasks_share_one_source_and_the_event_loop_goes_on() -> None:
    place, clock = SlowPlace(), Clock()
    source, events = events_of(place, clock)
    place.text = TWO.to_json()
    clock.now += 10
    assert await asyncio.gather(*(asyncio.to_thread(source.current) for _ in range(8))) == [ONE] * 8
    place.go.release()
    assert isinstance(await asyncio.to_thread(events.get, timeout=WAIT), KeyringReloaded)
    assert source.current() == TWO


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # forking is what it is about
def test_a_forked_worker_goes_on_reading_although_a_reader_was_not_forked_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "PATIENCE", WAIT)
    place, clock = SlowPlace(), Clock()
    source = LiveSource(place, monotonic=clock)
    place.text = TWO.to_json()
    clock.now += 10
    source.current()
    place.begun.get(timeout=WAIT)  # the parent's thread holds the lock now, and is not forked
    gc.disable()
    child = os.fork()
    if child == 0:
        try:
            clock.now += 3600
            place.go.release()
            os._exit(0 if source.current() == TWO else 1)
        finally:
            os._exit(2)
    gc.enable()
    _, status = os.waitpid(child, 0)
    place.go.release()
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_lock_that_is_held_in_another_process_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, clock = SlowPlace(), Clock()
    source = LiveSource(place, monotonic=clock)
    clock.now += 10
    source.current()
    place.begun.get(timeout=WAIT)  # a thread reads, and holds the lock
    monkeypatch.setattr(os, "getpid", int)
    source.current()
    place.begun.get(timeout=WAIT)
    place.go.release(2)


def test_a_box_follows_its_source_and_tells_one_hook_of_both(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    path.write_text(ring().to_json())
    path.chmod(0o600)
    kinds: list[str] = []
    box = Statebox.from_source(
        path,
        audience=AUDIENCE,
        ttl=300,
        clock=Clock(),
        on_event=lambda event: kinds.append(type(event).__name__),
    )
    other = Keyring([key("key-1"), key("key-2", nbf=NOW - 60)])
    token = Statebox(other, audience=AUDIENCE, clock=Clock()).seal({}, principal=None, request=None)
    with pytest.raises(UnknownKeyError):
        box.open(token, principal=None, request=None)
    path.write_text(other.to_json())
    while kinds[-1] != "Opened":  # the unknown kid above has begun the 0.1 s of its limit
        try:
            assert box.open(token, principal=None, request=None).key_id == "key-2"
        except UnknownKeyError:
            continue
    assert kinds[0] == "Rejected"
    assert kinds[-2:] == ["KeyringReloaded", "Opened"]


def test_a_box_over_a_source_is_checked_against_its_ring(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    path.write_text(ring().to_json())
    path.chmod(0o600)
    with pytest.raises(ValueError, match="over the keyring's max_ttl"):
        Statebox.from_source(f"file:{path}", audience=AUDIENCE, ttl=7200)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("ring.json", "file:ring.json"),
        ("/etc/ring.json", "file:/etc/ring.json"),
        ("file:ring.json", "file:ring.json"),
        ("file:a:b", "file:a:b"),
        ("./a:b", "file:./a:b"),
        ("env:KEYRING", "env:KEYRING"),
        ("cmd:/usr/bin/vault kv get -field='s3cret x'", "cmd:vault"),
        ("redis://host/3", "redis://host/3?key=statebox:keyring"),
        ("rediss://host:1/?key=a", "rediss://host:1/?key=a"),
    ],
)
def test_one_text_names_any_place(address: str, name: str) -> None:
    assert reader_of(address).name == name


@pytest.mark.parametrize(
    "address",
    [
        "",
        "file:",
        "env:",
        "cmd:",
        "cmd: ",
        "cmd:a 'b",
        "s3://bucket/key",
        "vault:s3cret",
        "Redis:x",
    ],
)
def test_a_text_that_names_no_place_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(KeyringError) as caught:
        open_source(address)
    assert "s3" not in caught.value.message


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_an_interval_and_a_timeout_are_positive(value: float) -> None:
    with pytest.raises(ValueError, match="interval is a positive number"):
        open_source("env:X", interval=value)
    with pytest.raises(ValueError, match="timeout is a positive number"):
        open_source("env:X", timeout=value)


def test_a_variable_holds_the_json_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYRING", ONE.to_json())
    clock = Clock()
    source = open_source("env:KEYRING", monotonic=clock)
    assert source.current() == ONE
    monkeypatch.setenv("KEYRING", TWO.to_json())
    clock.now += 60
    assert source.current() == TWO
    monkeypatch.delenv("KEYRING")
    clock.now += 60
    assert source.current() == TWO
    with pytest.raises(KeyringError, match="env:KEYRING is not set"):
        open_source("env:KEYRING")


@pytest.mark.parametrize(
    "address", ["{ring}", "file:{ring}", "env:{ring}", "cmd:K={ring} vault kv"]
)
def test_a_ring_in_the_place_of_its_address_is_not_repeated(address: str) -> None:
    """A likely slip where a variable holds the JSON itself."""
    text = ONE.to_json()
    secret = next(iter(ONE)).to_jwk()["k"]
    for given in (text, json.dumps(json.loads(text))):
        with pytest.raises(KeyringError) as caught:
            open_source(address.replace("{ring}", given))
        assert secret not in f"{caught.value.message} {caught.value.hint}"

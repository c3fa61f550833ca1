"""statebox.sources.redis: a ring in a real Redis, and what is said when there is none."""

import logging
import sys
from queue import Queue

import pytest

from statebox import Keyring, KeyringError
from statebox.events import Event, KeyringReloaded
from statebox.sources import open_source
from statebox.sources.redis import RedisReader
from tests.redis_server import PASSWORD, free_port, running
from tests.redis_server import redis_port as redis_port  # noqa: PLC0414 - a fixture
from tests.redis_server import redis_url as redis_url  # noqa: PLC0414 - a fixture
from tests.samples import NOW, Clock, key

ONE = Keyring([key("one")])
TWO = Keyring([key("one"), key("two", nbf=NOW - 60)])


def put(url: str, ring: Keyring) -> None:
    reader = RedisReader(url)
    with reader.connection() as client:
        client.set(reader.key, ring.to_json())


def test_a_ring_is_read_and_followed(redis_url: str) -> None:
    put(redis_url, ONE)
    events: Queue[Event] = Queue()
    clock = Clock()
    source = open_source(redis_url, on_event=events.put, monotonic=clock)
    assert source.current() == ONE
    put(redis_url, TWO)
    clock.now += 5
    source.current()  # begins to read; nobody waits for it
    event = events.get(timeout=60)
    assert isinstance(event, KeyringReloaded)
    assert event.key_ids == ("one", "two")
    assert source.current() == TWO


def test_an_unknown_kid_looks_again(redis_url: str) -> None:
    put(redis_url, ONE)
    clock = Clock()
    source = open_source(redis_url, monotonic=clock)
    put(redis_url, TWO)
    while source.reread() != TWO:
        clock.now += 1


def test_a_key_that_holds_nothing_is_refused(redis_url: str) -> None:
    with pytest.raises(KeyringError, match="holds nothing") as caught:
        open_source(redis_url)
    assert "statebox keys init" in caught.value.hint


def test_a_redis_that_goes_away_leaves_the_last_good_ring() -> None:
    events: Queue[Event] = Queue()
    clock = Clock()
    port = free_port()
    with running(port):
        url = f"redis://127.0.0.1:{port}/0"
        put(url, ONE)
        source = open_source(url, on_event=events.put, monotonic=clock)
    clock.now += 5
    assert source.current() == ONE
    assert type(events.get(timeout=60)).__name__ == "KeyringFailed"
    with running(port):
        put(url, TWO)
        clock.now += 5
        source.current()
        assert type(events.get(timeout=60)).__name__ == "KeyringReloaded"
    assert source.current() == TWO


def test_a_password_is_in_no_error_no_log_and_no_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    port = free_port()
    with running(port, "--requirepass", PASSWORD):
        encoded = PASSWORD.replace("/", "%2F").replace("@", "%40").replace("#", "%23")
        right = f"redis://:{encoded}@127.0.0.1:{port}/0?socket_timeout=3&key=a%0Ab"
        put(right, ONE)
        assert open_source(right).current() == ONE
        assert RedisReader(right).name == f"redis://127.0.0.1:{port}/0?key=a%0Ab"
        with pytest.raises(KeyringError, match="gave no answer: AuthenticationError") as caught:
            open_source(f"redis://:s3cret@127.0.0.1:{port}/0")
        assert "s3cret" not in f"{caught.value.message}{caught.value.hint}"
    for wrong in (f"redis://:{PASSWORD}@127.0.0.1:{port}/0", "redis://:12?3@h", "redis://:12#3@h"):
        with pytest.raises(KeyringError, match="not of the form") as caught:
            RedisReader(wrong)
        assert caught.value.__cause__ is None
    assert "s3cret" not in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("url", ["redis://h:port", "redis://h/db", "redis://h/0/1", "redis://[::1"])
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(KeyringError, match="not of the form"):
        RedisReader(url)


def test_a_parameter_that_redis_py_does_not_know_is_refused(redis_port: int) -> None:
    with pytest.raises(KeyringError, match="gave no answer"):
        open_source(f"redis://127.0.0.1:{redis_port}/0?colour=red")


def test_the_key_has_a_name_of_its_own() -> None:
    assert RedisReader("redis://").name == "redis://localhost?key=statebox:keyring"
    assert RedisReader("redis://[::1]:1/2?key=a:b&db=4").name == "redis://[::1]:1/2?key=a:b"


def test_a_missing_extra_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(KeyringError, match="needs redis-py, which is not installed") as caught:
        open_source("redis://localhost")
    assert caught.value.hint == "pip install 'statebox[redis]'"

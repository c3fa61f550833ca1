"""statebox.events: what a hook is told, what a log line holds, and that no request fails for a hook."""

import dataclasses
import logging
from typing import TypedDict, get_args

import pytest

from statebox import Key, Keyring, KeyringError, OpenError, Request, SealError, Statebox
from statebox.events import (
    Event,
    GuardFailed,
    KeyringFailed,
    KeyringReloaded,
    KeyWearing,
    Opened,
    Recalled,
    Rejected,
    Sealed,
    SealFailed,
    log_event,
    safe,
)
from statebox.sealer import MAX_USES, WEARING, Sealer
from statebox.state import State
from tests.samples import NOW, REQUEST, Clock, box, key, ring, secret


class Named(TypedDict):
    """What an event says of a request."""

    method: str
    target: str


NAMED: Named = {"method": "tools/call", "target": "refund"}
SECRET = "the user's own words"
PRINCIPAL = "alice@example.com"


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watched(events: list[Event], clock: Clock) -> Statebox:
    return box(clock=clock, on_event=events.append)


def test_a_flow_is_told_seal_by_seal_and_turn_by_turn(
    watched: Statebox, events: list[Event], clock: Clock
) -> None:
    token = watched.seal(1, principal=PRINCIPAL, request=REQUEST)
    clock.now += 7
    turn = watched.open(token, principal=PRINCIPAL, request=REQUEST)
    again = watched.seal(2, principal=PRINCIPAL, request=REQUEST, after=turn)
    second = watched.open(again, principal=PRINCIPAL, request=REQUEST)
    sealed = Sealed(
        key_id="key-1",
        token_id=turn.token_id,
        size=len(token),
        flow=turn.flow,
        round=1,
        **NAMED,
    )
    opened = Opened(
        key_id="key-1",
        token_id=turn.token_id,
        size=len(token),
        age=7,
        flow=turn.flow,
        round=1,
        **NAMED,
    )
    token_id, size = second.token_id, len(again)
    assert events == [
        sealed,
        opened,
        dataclasses.replace(sealed, token_id=token_id, size=size, round=2),
        dataclasses.replace(opened, token_id=token_id, size=size, round=2, age=0),
    ]


def test_what_is_bound_to_no_request_names_none(watched: Statebox, events: list[Event]) -> None:
    watched.open(watched.seal(1, principal=None, request=None), principal=None, request=None)
    assert [(type(event), getattr(event, "method", 0)) for event in events] == [
        (Sealed, None),
        (Opened, None),
    ]


def test_a_refusal_names_what_was_authenticated_and_what_it_came_with(
    watched: Statebox, events: list[Event], clock: Clock
) -> None:
    token = watched.seal(1, principal=PRINCIPAL, request=REQUEST)
    clock.now += 601
    other = Request("prompts/get", "elsewhere")
    with pytest.raises(OpenError) as caught:
        watched.open(token, principal=PRINCIPAL, request=other)
    assert events[1:] == [
        Rejected(
            code="expired",
            size=len(token),
            key_id="key-1",
            token_id=caught.value.token_id,
            flow=caught.value.flow,
            round=1,
            age=601,
            method="prompts/get",
            target="elsewhere",
        )
    ]


@pytest.mark.parametrize(
    ("token", "refused"),
    [
        ("sb1.AAAA", Rejected(code="malformed", size=8, **NAMED)),
        (None, Rejected(code="malformed", **NAMED)),
        ("x" * 70_000, Rejected(code="too_large", size=70_000, **NAMED)),
    ],
    ids=["malformed", "no-text", "too-large"],
)
def test_a_refusal_before_authentication_says_nothing_of_the_token(
    watched: Statebox, events: list[Event], token: str, refused: Rejected
) -> None:
    with pytest.raises(OpenError):
        watched.open(token, principal=None, request=REQUEST)
    assert events == [refused]


def test_a_changed_token_is_told_with_the_key_that_it_names(
    watched: Statebox, events: list[Event]
) -> None:
    token = watched.seal(1, principal=None, request=REQUEST)
    changed = token[:-8] + ("AAAAAAAA" if token[-8:] != "AAAAAAAA" else "BBBBBBBB")
    with pytest.raises(OpenError):
        watched.open(changed, principal=None, request=REQUEST)
    assert events[1:] == [Rejected(code="authentication", size=len(token), key_id="key-1", **NAMED)]


@pytest.mark.parametrize(
    ("state", "code"), [({1, 2}, "unsupported_state"), ("x" * 70_000, "too_large")]
)
def test_a_state_that_is_not_sealed_is_told(
    watched: Statebox, events: list[Event], state: State, code: str
) -> None:
    turn = watched.open(
        watched.seal(1, principal=None, request=REQUEST), principal=None, request=REQUEST
    )
    for after, flow, round_ in [(None, None, None), (turn, turn.flow, 1)]:
        with pytest.raises(SealError):
            watched.seal(state, principal=None, request=REQUEST, after=after)
        assert events[-1] == SealFailed(code=code, flow=flow, round=round_, **NAMED)


def test_a_ring_that_cannot_seal_is_told(events: list[Event]) -> None:
    early = box([key(nbf=NOW + 60)], on_event=events.append)
    with pytest.raises(KeyringError):
        early.seal(1, principal=None, request=None)
    assert events == [SealFailed(code="keyring")]


def fail(event: Event) -> None:
    raise LookupError(f"no place for {type(event).__name__}")


def test_a_hook_that_raises_breaks_nothing_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = box(on_event=fail)
    token = broken.seal(1, principal=None, request=None)
    assert broken.open(token, principal=None, request=None).state == 1
    with pytest.raises(OpenError):
        broken.open("sb1.", principal=None, request=None)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("statebox.events", "ERROR")
    assert "raised on Sealed" in record.message
    assert "no place for Sealed" in caplog.text


def test_an_interrupt_in_a_hook_is_not_swallowed() -> None:
    def interrupt(_event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        box(on_event=interrupt).seal(1, principal=None, request=None)


async def asynchronous(_event: Event) -> None:
    raise AssertionError("never awaited")


@pytest.mark.parametrize("hook", ["print", 7, asynchronous], ids=["text", "number", "coroutine"])
def test_a_hook_that_could_not_be_called_is_refused_at_the_start(hook: object) -> None:
    with pytest.raises(TypeError, match="called, never awaited"):
        box(on_event=hook)  # type: ignore[arg-type]


def test_no_hook_is_no_hook() -> None:
    assert safe(None) is None
    assert box().on_event is None


EXAMPLES: tuple[Event, ...] = (
    Sealed(key_id="k", token_id="0123456789abcdef", size=7, flow="f", round=1, **NAMED),
    Opened(key_id="k", token_id="0123456789abcdef", size=7, age=1.5, flow="f", round=1, **NAMED),
    Rejected(code="expired", size=7, key_id="k", token_id="0123456789abcdef", **NAMED),
    SealFailed(code="too_large", flow="f", round=1, **NAMED),
    KeyringReloaded(source="file:keyring.json", key_ids=("k", "l")),
    KeyringFailed(source="file:keyring.json", message="it is gone"),
    KeyWearing(key_id="k", uses=5, limit=10),
    GuardFailed(guard="RedisGuard", reason="down"),
    Recalled(token_id="0123456789abcdef", flow="f", round=1, **NAMED),
)


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EXAMPLES} == set(get_args(Event))


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_events_are_values_that_nobody_can_change(event: Event) -> None:
    assert dataclasses.replace(event) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, dataclasses.fields(event)[0].name, "changed")


@pytest.mark.parametrize(
    ("event", "level", "line"),
    list(
        zip(
            EXAMPLES,
            ["INFO", "INFO", "WARNING", "WARNING", "INFO", "WARNING", "WARNING", "WARNING", "INFO"],
            [
                "Sealed kid=k token=01234567 size=7 flow=f round=1 method=tools/call",
                "Opened kid=k token=01234567 size=7 age=1.5 flow=f round=1 method=tools/call",
                "Rejected code=expired size=7 kid=k token=01234567 method=tools/call",
                "SealFailed code=too_large flow=f round=1 method=tools/call",
                "KeyringReloaded source=file:keyring.json key_ids=('k', 'l')",
                "KeyringFailed source=file:keyring.json message=it is gone",
                "KeyWearing kid=k uses=5 limit=10",
                "GuardFailed guard=RedisGuard reason=down",
                "Recalled token=01234567 flow=f round=1 method=tools/call",
            ],
            strict=True,
        )
    ),
    ids=lambda value: type(value).__name__,
)
def test_an_event_is_one_log_line_without_what_a_client_chose(
    event: Event, level: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log_event(event)
    (record,) = caplog.records
    assert (record.name, record.levelname, record.message) == ("statebox.events", level, line)


def test_a_log_line_carries_its_values_as_extras(caplog: pytest.LogCaptureFixture) -> None:
    log_event(EXAMPLES[2])
    extras = {
        name: value
        for name, value in vars(caplog.records[0]).items()
        if name.startswith("statebox_")
    }
    assert extras == {
        "statebox_event": "Rejected",
        "statebox_code": "expired",
        "statebox_size": 7,
        "statebox_kid": "k",
        "statebox_token": "01234567",
        "statebox_flow": None,
        "statebox_round": None,
        "statebox_age": None,
        "statebox_method": "tools/call",
    }


@pytest.mark.parametrize("alg", ["A256GCM", "HS256"])
def test_no_event_and_no_log_line_holds_a_secret(
    alg: str, events: list[Event], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys = ring(alg)
    watched = box(keys, clock=clock, on_event=events.append)
    token = watched.seal(SECRET, principal=PRINCIPAL, request=REQUEST)
    watched.open(token, principal=PRINCIPAL, request=REQUEST)
    for principal in ("mallory@example.com", None):
        with pytest.raises(OpenError):
            watched.open(token, principal=principal, request=REQUEST)
    with pytest.raises(SealError):
        watched.seal([SECRET, object()], principal=PRINCIPAL, request=None)
    for event in events:
        log_event(event)
    said = repr(events) + caplog.text + repr([vars(record) for record in caplog.records])
    assert len(events) == 5
    for text in (SECRET, PRINCIPAL, "mallory", token, token[10:40], "ORD-7001"):
        assert text not in said
    assert next(iter(keys)).to_jwk()["k"] not in said


class Changing:
    """A source whose ring is whatever it was set to."""

    def __init__(self, ring: Keyring) -> None:
        self.ring = ring

    def current(self) -> Keyring:
        return self.ring

    def reread(self) -> Keyring:
        return self.ring


def seal_once(sealer: Sealer) -> None:
    sealer.seal(sealer.active(NOW), b"payload", bytes(12))


def test_a_key_half_way_to_its_limit_is_told_once(
    events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    sealer = Sealer(ring(), clock=Clock(), on_event=events.append)
    sealer.active(NOW).uses = WEARING - 2
    seal_once(sealer)
    assert events == []
    seal_once(sealer)
    seal_once(sealer)
    assert events == [KeyWearing(key_id="key-1", uses=1 << 31, limit=1 << 32)]
    assert caplog.messages == ["key key-1 has sealed 2147483648 tokens of 4294967296; rotate it"]


def test_a_key_seals_no_more_than_aes_gcm_allows() -> None:
    sealer = Sealer(ring(), clock=Clock())
    sealer.active(NOW).uses = MAX_USES - 1
    seal_once(sealer)
    with pytest.raises(KeyringError, match="has sealed 4294967296 tokens") as caught:
        seal_once(sealer)
    assert "keys rotate" in caught.value.hint


def test_a_mac_has_no_such_limit(events: list[Event]) -> None:
    sealer = Sealer(ring("HS256"), clock=Clock(), on_event=events.append)
    sealer.active(NOW).uses = MAX_USES
    seal_once(sealer)
    assert events == []


def test_the_count_outlives_a_reload_and_another_secret_starts_anew() -> None:
    source = Changing(Keyring([key()]))
    sealer = Sealer(source, clock=Clock())
    seal_once(sealer)
    source.ring = Keyring([key(), key("key-2", nbf=NOW + 60)])
    seal_once(sealer)
    assert sealer.active(NOW).uses == 2
    source.ring = Keyring([Key(kid="key-1", alg="A256GCM", secret=secret("another"), nbf=NOW)])
    seal_once(sealer)
    assert sealer.active(NOW).uses == 1

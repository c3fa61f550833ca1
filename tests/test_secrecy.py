"""What is never told: a secret, a state, a principal, a token; in no repr, pickle, error or log.

A sentinel stands for each, and is looked for in everything that can be printed or reached: the
reprs of objects, pickles, every error with its causes, its contexts and the variables of its
frames, and every record that is logged meanwhile.
"""

from __future__ import annotations

import base64
import copy
import gc
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

import statebox
from statebox import (
    Key,
    Keyring,
    KeyringError,
    OpenError,
    Request,
    SealError,
    Statebox,
    StateboxError,
)
from statebox.cbor import MAX_DEPTH
from statebox.events import Event, log_event
from statebox.jwk import key_from_jwk
from statebox.keys import Revocation
from tests.samples import ALGORITHMS, AUDIENCE, NOW, Clock
from tests.vectors.forge import Maker, payload_of
from tests.vectors.plain_cbor import Raw
from tests.work import with_room_for

SECRET = b"sentinel-secret-0123456789abcdef"
STATE = "sentinel-state"
PRINCIPAL = "sentinel-principal"
K = base64.urlsafe_b64encode(SECRET).rstrip(b"=").decode()
ARGUMENTS = {"card": "sentinel-argument"}
REQUEST = Request("tools/call", "refund", ARGUMENTS)

each_alg = pytest.mark.parametrize("alg", ALGORITHMS)


def spellings(text: str | bytes) -> set[str]:
    """All the ways in which a sentinel could be written: text, hex, base64 at each offset."""
    data = text if isinstance(text, bytes) else text.encode()
    found = {data.decode(), data.hex(), repr(list(data))[1:-1]}
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode()
        found.add(encoded[4 if offset else 0 : len(encoded) - 4])
    return found


def told(text: str, *sentinels: str | bytes) -> list[str]:
    return [form for sentinel in sentinels for form in spellings(sentinel) if form in text]


def a_key(alg: str = "A256GCM", **members: Any) -> Key:
    return Key(kid="key-1", alg=alg, secret=SECRET, **members)


def a_box(alg: str = "A256GCM", clock: Clock | None = None, **options: Any) -> Statebox:
    keys = Keyring([a_key(alg)])
    return Statebox(keys, audience=AUDIENCE, clock=clock or Clock(), **options)


def test_the_spellings_find_what_they_look_for() -> None:
    """Otherwise every test below would prove nothing."""
    for sentinel in (SECRET, STATE, PRINCIPAL):
        data = sentinel if isinstance(sentinel, bytes) else sentinel.encode()
        for shown in (
            repr(sentinel),
            data.hex(),
            *(base64.urlsafe_b64encode(b"x" * at + data + b"yz").decode() for at in range(4)),
        ):
            assert told(shown, sentinel)
    assert told(K, SECRET)
    assert not told("<Key key-1 A256GCM fingerprint=0123456789abcdef>", SECRET, STATE)


# --- reprs, pickles, copies ---------------------------------------------------------------------


def shown(thing: object) -> str:
    return (
        f"{thing!r} {thing!s} {thing:}"
        if type(thing).__format__ is object.__format__
        else repr(thing)
    )


@each_alg
def test_no_repr_tells_a_secret(alg: str) -> None:
    here = a_box(alg)
    here.seal(STATE, principal=PRINCIPAL, request=None)  # so that everything is derived
    ring = Keyring([a_key(alg, revoked=Revocation(5, "lost"))])
    for thing in (a_key(alg), ring, here, [a_key(alg)], {"ring": ring}):
        assert not told(shown(thing), SECRET)


def test_a_repr_of_a_key_or_a_ring_still_says_which() -> None:
    assert "key-1 A256GCM fingerprint=" in repr(a_key())
    assert repr(Keyring([a_key()])) == "<Keyring of 1: key-1>"


@each_alg
def test_no_repr_tells_a_state_or_a_principal(alg: str) -> None:
    here = a_box(alg)
    token = here.seal({STATE: STATE}, principal=PRINCIPAL, request=REQUEST)
    turn = here.open(token, principal=PRINCIPAL, request=REQUEST)
    assert STATE in str(turn.state)
    for thing in (turn, here, REQUEST, {"turn": turn}):
        assert not told(shown(thing), STATE, PRINCIPAL, "sentinel-argument", SECRET, token)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_not_pickled_with_whatever_holds_it(protocol: int) -> None:
    here = a_box()
    here.seal(STATE, principal=PRINCIPAL, request=None)
    for thing in (a_key(), Keyring([a_key()]), here, [a_key()], {"ring": Keyring([a_key()])}):
        with pytest.raises(TypeError) as caught:
            pickle.dumps(thing, protocol)
        assert not told(str(caught.value), SECRET)


def test_a_key_is_not_taken_apart_by_the_hooks_of_pickle_and_copy() -> None:
    for thing in (a_key(), Keyring([a_key()])):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="not pickled or copied"):
                thing.__reduce_ex__(protocol)
        assert copy.copy(thing) is copy.deepcopy(thing) is thing
        assert not hasattr(thing, "__dict__")


def test_a_secret_leaves_a_key_by_one_name_only() -> None:
    """What is public of a key is its name, its dates and what is derived; and to_jwk, which says so."""
    made = a_key()
    public = {name for name in dir(made) if not name.startswith("_")}
    for name in public - {"to_jwk", "derive", "generate", "replace", "same_secret"}:
        assert not told(repr(getattr(made, name)), SECRET)
    assert told(json.dumps(made.to_jwk()), SECRET)
    assert {name for name in public if callable(getattr(made, name))} == {
        "derive",
        "generate",
        "replace",
        "same_secret",
        "to_jwk",
    }


# --- errors -------------------------------------------------------------------------------------


def reachable(error: BaseException, *, frames_of: str) -> str:
    """Write down all that a reporter of errors could show: the error, its chain, its frames.

    Args:
        error: The error.
        frames_of: A part of the path of the files whose frames are looked into.
    """
    out: list[str] = []
    seen: set[int] = set()

    def visit(current: BaseException | None) -> None:
        if current is None or id(current) in seen:
            return
        seen.add(id(current))
        out.append("".join(traceback.format_exception(current)))
        out.append(f"{current!r} {current.args!r} {vars(current)!r}")
        out.extend(
            repr(getattr(current, name)) for name in ("object", "doc") if hasattr(current, name)
        )
        step = current.__traceback__
        while step is not None:
            if frames_of in step.tb_frame.f_code.co_filename:
                out.append(variables(step.tb_frame))
            step = step.tb_next
        visit(current.__cause__)
        visit(current.__context__)

    visit(error)
    return "\n".join(out)


def variables(frame: FrameType) -> str:
    # The token is what the caller gave, and a signed one reads as its state.
    found = {name: value for name, value in frame.f_locals.items() if name != "token"}
    return " ".join(f"{name}={value!r}" for name, value in found.items())


LIBRARY = str(Path(statebox.__file__).parent)


def error_of(call: Callable[[], object]) -> StateboxError:
    with pytest.raises(StateboxError) as caught:
        call()
    return caught.value


BAD_JWKS: dict[str, object] = {
    "padding": K + "=",
    "a newline": K + "\n",
    "not ASCII": K + "é",
    "a lone surrogate": K + "\udc80",
    "low bits": K[:-1] + "9",
    "too short": K[:20],
    "a list": [K],
}


@pytest.mark.parametrize("k", BAD_JWKS.values(), ids=BAD_JWKS.keys())
def test_an_error_in_a_jwk_does_not_hold_the_secret_that_it_is_about(k: object) -> None:
    jwk = {"kty": "oct", "kid": "key-1", "alg": "A256GCM", "k": k}
    for read in (
        lambda: key_from_jwk(jwk),
        lambda: Keyring.from_jwks({"keys": [jwk]}),
        lambda: Keyring.from_json(json.dumps({"keys": [jwk]})),
    ):
        error = error_of(read)
        assert not told(reachable(error, frames_of=LIBRARY), K[:20], SECRET[:12])
        assert error.__context__ is None or isinstance(error.__context__, KeyringError)


TEXTS = {
    "cut off": f'{{"keys": [{{"k": "{K}"',
    "a comma": f'{{"keys": [{{"k": "{K}"}},]}}',
    "text after it": f'{{"k": "{K}"}} {K}',
    "not JSON": K,
    "a member twice": f'{{"k": "{K}", "k": "{K}"}}',
    "not UTF-8": b"\xff" + K.encode(),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_an_error_in_a_keyring_file_does_not_hold_the_file(text: str | bytes) -> None:
    """A JSONDecodeError carries the whole document, so it must be nobody's context."""
    error = error_of(lambda: Keyring.from_json(text))
    assert not told(reachable(error, frames_of=LIBRARY), SECRET)
    assert error.__context__ is None


@pytest.mark.parametrize("change", [{"exp": -1}, {"alg": "none"}, {"kid": "a b"}, {"k": K + "="}])
def test_an_error_in_a_live_source_leaves_no_secret_in_a_frame(
    change: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loggers that show local variables print those of every frame that an error went through."""
    text = json.dumps({"keys": [a_key().to_jwk() | change]})
    monkeypatch.setenv("RING", text)
    path = tmp_path / "ring.json"
    path.touch(0o600)
    path.write_text(text)
    for source in (f"file:{path}", "env:RING", f"cmd:cat {path}"):
        error = error_of(partial(Statebox.from_source, source, audience="billing"))
        assert not told(reachable(error, frames_of=LIBRARY), SECRET)
    assert not told(reachable(error_of(lambda: Keyring.load(path)), frames_of=LIBRARY), SECRET)


def test_the_password_of_a_redis_is_in_no_frame() -> None:
    address = f"redis://user:{STATE}@127.0.0.1:1/0"
    error = error_of(lambda: Statebox.from_source(address, audience="billing"))
    assert not told(reachable(error, frames_of=LIBRARY), STATE)


@pytest.mark.parametrize("name", ["Key", "Keyring", "Request"])
def test_what_was_never_made_has_a_repr_all_the_same(name: str) -> None:
    """A logger that shows local variables asks for it when __init__ has raised."""
    unmade: object = object.__new__(getattr(statebox, name))
    assert repr(unmade) == f"<{name}, not made>"


def test_no_error_of_a_key_or_a_ring_tells_a_secret() -> None:
    twin = Key(kid="key-2", alg="HS256", secret=SECRET, nbf=5)
    for call in (
        lambda: Key(kid="key 1", alg="A256GCM", secret=SECRET),
        lambda: Key(kid="key-1", alg="none", secret=SECRET),
        lambda: Key(kid="key-1", alg="A256GCM", secret=SECRET[:-1]),
        lambda: Key(kid="key-1", alg="A256GCM", secret=cast("bytes", SECRET.decode())),
        lambda: Key(kid="key-1", alg="A256GCM", secret=SECRET, nbf=-1),
        lambda: a_key(nbf=9, exp=5),
        lambda: Keyring([a_key(), twin]),
        lambda: Keyring([a_key(), a_key()]),
        lambda: Keyring([a_key()], max_ttl=0),
        lambda: Keyring([a_key(nbf=NOW)]).active(5),
    ):
        assert not told(reachable(error_of(call), frames_of=LIBRARY), SECRET[:-1])


def forged(alg: str, **changes: Any) -> str:
    """Make an authentic token for the sentinels, with some claims changed; in a frame of its own."""
    claims: dict[str, Any] = {"state": {STATE: STATE}} | changes
    return Maker("key-1", alg, SECRET).token(payload_of(**claims))


def refused_tokens(alg: str) -> dict[str, str]:
    good = a_box(alg).seal({STATE: STATE}, principal=PRINCIPAL, request=REQUEST)
    return {
        "principal": good,
        "audience": forged(alg, aud="others"),
        "issued in the future": forged(alg, iat=NOW + 61, exp=NOW + 62),
        "expired": forged(alg, iat=NOW - 5, exp=NOW - 1),
        "too many rounds": forged(alg, round=33),
        "request": forged(alg, request=[1, "pay", b"\x01" * 16]),
        "a trailing byte": Maker("key-1", alg, SECRET).token(payload_of(state=STATE) + b"\0"),
        "not UTF-8": forged(alg, state=Raw(encoded_badly(STATE))),
        "no such state": forged(alg, state=[STATE, float("nan")]),
        "no CBOR": forged(alg, state=Raw(encoded_badly(STATE)[:-1] + b"\xff\xff\xff")),
        "another tag": good[:-6] + "AAAAAA",
        "cut": good[:-4],
    }


def encoded_badly(text: str) -> bytes:
    data = text.encode() + b"\xff"
    return b"\x81" + bytes([0x60 | len(data)]) + data


CASES = list(refused_tokens("A256GCM"))


@each_alg
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("hook", [None, log_event], ids=["no hook", "logging"])
def test_of_a_refused_token_nothing_can_be_reached_from_the_error(
    alg: str, case: str, hook: Callable[[Event], None] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Reporters of errors record the variables of every frame.

    Mallory, presenting Alice's token, would put Alice's state into the error tracker.
    """
    caplog.set_level(logging.DEBUG)
    error = refusal_of(alg, case, hook)
    assert isinstance(error, OpenError)
    everything = reachable(error, frames_of=LIBRARY) + caplog.text + repr(caplog.records)
    assert not told(everything, STATE, PRINCIPAL, SECRET, "sentinel-argument")
    assert error.__cause__ is None
    assert error.__context__ is None


@each_alg
def test_where_the_stack_has_no_room_nothing_can_be_reached_from_the_error_either(alg: str) -> None:
    """Wherever in opening the last frame is taken, what was decrypted by then is let go."""
    here = a_box(alg)
    token = here.seal(nested_state(), principal=PRINCIPAL, request=None)
    ended = 0
    for frames in range(1, 120):
        try:
            with_room_for(frames, partial(here.open, token, principal=None, request=None))
        except Exception as error:  # noqa: BLE001 - whichever it is
            ended += 1
            shown = reachable(error, frames_of=LIBRARY)
        else:
            shown = ""
        assert not told(shown, STATE)
    assert ended > 10


def nested_state() -> list[Any]:
    state: list[Any] = [STATE]
    for _ in range(MAX_DEPTH - 1):
        state = [state]
    return state


def refusal_of(alg: str, case: str, hook: Callable[[Event], None] | None) -> StateboxError:
    here = a_box(alg, on_event=hook)
    token = refused_tokens(alg)[case]
    return error_of(lambda: here.open(token, principal=None, request=None))


@each_alg
def test_no_message_hint_or_attribute_of_an_error_holds_a_token(alg: str) -> None:
    for case, token in refused_tokens(alg).items():
        error = refusal_of(alg, case, None)
        said = f"{error.message} {error.hint} {error!r} {vars(error)!r}"
        assert not [at for at in range(4, len(token) - 16) if token[at : at + 16] in said]


def test_an_error_of_sealing_names_the_path_and_never_the_value() -> None:
    here = a_box()
    states: list[Any] = [
        {"a": {STATE}},
        {"a": (STATE,)},
        {"a": STATE + "\ud800"},
        {"a": [STATE, float("nan")]},
        STATE * 10_000,
    ]
    for state in states:
        error = error_of(lambda: here.seal(state, principal=PRINCIPAL, request=None))  # noqa: B023 - called at once
        assert isinstance(error, SealError)
        said = "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error.args)
        assert not told(said, STATE, PRINCIPAL, SECRET)


def test_a_principal_that_is_refused_is_not_told() -> None:
    wrong: list[Any] = [PRINCIPAL.encode(), {PRINCIPAL}, [PRINCIPAL, 5], {"name": PRINCIPAL}]
    for principal in wrong:
        with pytest.raises(TypeError) as caught:
            a_box().seal(STATE, principal=principal, request=None)
        assert not told("".join(traceback.format_exception(caught.value)), PRINCIPAL, STATE)


# --- logs ---------------------------------------------------------------------------------------


@each_alg
def test_sealing_and_opening_log_no_token_state_principal_or_secret(
    alg: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    clock = Clock()
    for hook in (None, log_event):
        here = a_box(alg, clock, on_event=hook)
        token = here.seal({STATE: STATE}, principal=PRINCIPAL, request=REQUEST)
        here.open(token, principal=PRINCIPAL, request=REQUEST)
        for principal in (None, "bob"):
            with pytest.raises(OpenError):
                here.open(token, principal=principal, request=REQUEST)
        with pytest.raises(OpenError):
            here.open(token + "=", principal=PRINCIPAL, request=REQUEST)
        with pytest.raises(SealError):
            here.seal({STATE: STATE * 9999}, principal=PRINCIPAL, request=REQUEST)
    logged = caplog.text + "".join(repr(vars(record)) for record in caplog.records)
    assert "Opened" in logged
    assert not told(logged, STATE, PRINCIPAL, SECRET, "sentinel-argument")
    assert token[4:40] not in logged
    assert token[-40:] not in logged


def test_without_a_hook_the_core_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    here = a_box()
    here.open(here.seal(STATE, principal=None, request=None), principal=None, request=None)
    with pytest.raises(OpenError):
        here.open("sb1.", principal=None, request=None)
    assert caplog.records == []


@each_alg
def test_a_refused_state_is_not_kept_alive(alg: str) -> None:
    """The frames that held it are let go with the error; nothing else remembers it."""

    def strings() -> int:
        gc.collect()
        return sum(1 for thing in gc.get_objects() if type(thing) is dict and STATE in thing)

    token = forged(alg, principal=b"\x01" * 16)
    before = strings()
    error = error_of(lambda: a_box(alg).open(token, principal=None, request=None))
    assert error.code == "principal"
    assert strings() == before

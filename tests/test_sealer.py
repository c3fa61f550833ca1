"""Steps 1 to 5: length, text, frame, key, authentication; and rings that change meanwhile."""

from __future__ import annotations

import bisect
import itertools
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import (
    AuthenticationError,
    ExpiredKeyError,
    Key,
    Keyring,
    MalformedTokenError,
    OpenError,
    RevokedKeyError,
    SealError,
    TokenTooLargeError,
    UnknownKeyError,
)
from statebox.bindings import Principal
from statebox.keys import Revocation
from statebox.sealer import Sealer
from tests.samples import ALGORITHMS, DAY, NOW, Clock, key, maker, ring, secret
from tests.vectors import independent
from tests.vectors.forge import Maker
from tests.vectors.independent import message_of, text_of
from tests.vectors.plain_cbor import encode
from tests.work import calls

PAYLOAD = b"the payload"
IV = b"\x07" * 12

each_alg = pytest.mark.parametrize("alg", ALGORITHMS)


def sealer(*keys: Key, max_token_chars: int = 65536) -> Sealer:
    return Sealer(Keyring(keys or [key()]), max_token_chars=max_token_chars, clock=Clock())


def token_of(alg: str = "A256GCM", payload: bytes = PAYLOAD) -> str:
    here = Sealer(ring(alg))
    return here.seal(here.active(NOW), payload, IV)


def opened(here: Sealer, token: object, now: float = NOW) -> tuple[bytes, str]:
    payload, slot, _ = here.open(token, now)
    return payload, slot.key.kid


@each_alg
def test_a_payload_comes_back_with_its_key_and_its_message(alg: str) -> None:
    payload, slot, message = Sealer(ring(alg)).open(token_of(alg), NOW)
    assert (payload, slot.key) == (PAYLOAD, key(alg=alg))
    assert text_of(message) == token_of(alg)


# --- 1: the length ------------------------------------------------------------------------------


def test_a_token_over_the_cap_is_refused_and_one_at_the_cap_is_not() -> None:
    token = token_of(payload=bytes(300))
    at_the_cap = sealer(max_token_chars=len(token))
    below = sealer(max_token_chars=len(token) - 1)
    assert opened(at_the_cap, token)[0] == bytes(300)
    with pytest.raises(TokenTooLargeError, match=f"has {len(token)} characters, the cap is"):
        below.open(token, NOW)


def test_nothing_of_a_token_over_the_cap_is_decoded() -> None:
    here = sealer()
    over, far_over = ("sb1." + "A" * size for size in (65536, 10_000_000))
    work = calls(lambda: _swallow(here, over))
    assert work == calls(lambda: _swallow(here, far_over))
    assert work < calls(lambda: _swallow(here, over[:-4]))
    with pytest.raises(TokenTooLargeError):
        here.open("\ud800" * 65537, NOW)


def _swallow(here: Sealer, token: str) -> None:
    with pytest.raises(OpenError):
        here.open(token, NOW)


def test_nothing_is_sealed_that_would_be_over_the_cap() -> None:
    for cap in (256, 300, 65536):
        here = sealer(max_token_chars=cap)
        slot = here.active(NOW)
        size = bisect.bisect_right(range(cap), cap, key=lambda n: len(maker().token(bytes(n))))
        with pytest.raises(SealError, match=f"the cap is {cap}") as caught:
            here.seal(slot, bytes(size), IV)
        assert caught.value.code == "too_large"
        assert opened(here, here.seal(slot, bytes(size - 1), IV))[0] == bytes(size - 1)


@pytest.mark.parametrize("cap", [0, -1, 255, 65536.0, True, None, "65536"], ids=repr)
def test_a_cap_that_no_token_fits_is_refused(cap: object) -> None:
    with pytest.raises(ValueError, match="at least 256"):
        Sealer(ring(), max_token_chars=cast("int", cap))


# --- 2 and 3: text and frame --------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [None, 5, b"sb1.AAAA", bytearray(b"sb1."), ["sb1."], object(), True],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_text_is_malformed(token: object) -> None:
    with pytest.raises(MalformedTokenError, match="not text"):
        sealer().open(token, NOW)


@each_alg
def test_every_single_bit_of_a_token_counts(alg: str) -> None:
    message = message_of(token_of(alg))
    here = sealer(key(alg=alg))
    codes: set[str] = set()
    for at, bit in itertools.product(range(len(message)), range(8)):
        flipped = bytearray(message)
        flipped[at] ^= 1 << bit
        with pytest.raises(OpenError) as caught:
            here.open(text_of(bytes(flipped)), NOW)
        codes.add(caught.value.code)
    assert codes == {"malformed", "unknown_key", "authentication"}


@each_alg
def test_every_cut_of_a_token_is_refused(alg: str) -> None:
    token = token_of(alg)
    here = sealer(key(alg=alg))
    for at in range(len(token)):
        for cut in (token[:at], token[at + 1 :], token[:at] + token[at + 1 :]):
            with pytest.raises(MalformedTokenError):
                here.open(cut, NOW)


@each_alg
@pytest.mark.parametrize("size", [10, 11, 12])
def test_every_other_last_character_is_refused(alg: str, size: int) -> None:
    """One of the sizes leaves four low bits of it unused, one two, one none."""
    token = token_of(alg, bytes(size))
    here = sealer(key(alg=alg))
    assert opened(here, token)[0] == bytes(size)
    for code in range(128):
        if chr(code) != token[-1]:
            with pytest.raises(OpenError):
                here.open(token[:-1] + chr(code), NOW)


@pytest.mark.parametrize(
    "prefix", ["", "v1.", "SB1.", "sb2.", "sb0.", "sb1", "sb1..", "sb10.", "\ufeffsb1."]
)
def test_every_other_prefix_is_malformed(prefix: str) -> None:
    with pytest.raises(MalformedTokenError):
        sealer().open(prefix + token_of()[4:], NOW)


@pytest.mark.parametrize(
    "around", [" {}", "{} ", "{}\n", "{}=", "{}==", "{}!", "\0{}", "{}\0", '"{}"']
)
def test_nothing_around_a_token_is_trimmed(around: str) -> None:
    for alg in ALGORITHMS:
        with pytest.raises(MalformedTokenError):
            sealer(key(alg=alg)).open(around.format(token_of(alg)), NOW)


@given(token=st.text(max_size=80) | st.text("sb1.AQgw0_-", max_size=80).map("sb1.".__add__))
def test_any_text_at_all_raises_only_open_errors(token: str) -> None:
    with pytest.raises(OpenError):
        sealer().open(token, NOW)


@given(message=st.binary(max_size=120))
def test_any_message_at_all_raises_only_open_errors(message: bytes) -> None:
    for before in (b"", b"\xd0\x83", b"\xd1\x84"):
        with pytest.raises(OpenError):
            sealer().open(text_of(before + message), NOW)


# --- 4: the key ---------------------------------------------------------------------------------


def test_a_token_of_a_key_that_the_ring_has_not_is_of_an_unknown_key() -> None:
    with pytest.raises(UnknownKeyError) as caught:
        sealer(key("key-2")).open(token_of(), NOW)
    assert caught.value.key_id is None


@each_alg
def test_a_revoked_key_opens_nothing_and_is_named(alg: str) -> None:
    for exp in (None, NOW - 5):
        gone = key(alg=alg, exp=exp, revoked=Revocation(NOW + DAY))
        with pytest.raises(RevokedKeyError) as caught:
            sealer(gone).open(token_of(alg), NOW)
        assert caught.value.key_id == "key-1"


@each_alg
@pytest.mark.parametrize("how", [{"exp": NOW}, {"revoked": Revocation(NOW)}], ids=str)
def test_the_frame_of_a_token_comes_before_its_key(alg: str, how: dict[str, Any]) -> None:
    message = message_of(token_of(alg))
    here = sealer(key(alg=alg, **how))
    for wrong in (message[:-1], message + b"\0"):
        with pytest.raises(MalformedTokenError):
            here.open(text_of(wrong), NOW)


@each_alg
def test_an_expired_key_opens_nothing_from_its_exp_on_and_is_named(alg: str) -> None:
    here = sealer(key(alg=alg, exp=NOW + 1))
    assert opened(here, token_of(alg), NOW + 0.999) == (PAYLOAD, "key-1")
    with pytest.raises(ExpiredKeyError) as caught:
        here.open(token_of(alg), NOW + 1)
    assert caught.value.key_id == "key-1"


@pytest.mark.parametrize("now", [float("nan"), float("inf"), 1e300])
def test_a_clock_that_shows_no_time_opens_nothing_under_a_key_that_ends(now: float) -> None:
    with pytest.raises(ExpiredKeyError):
        sealer(key(exp=NOW + 1)).open(token_of(), now)
    with pytest.raises(RevokedKeyError):
        sealer(key(revoked=Revocation(1))).open(token_of(), now)


def test_a_token_of_another_algorithm_than_its_key_is_not_followed() -> None:
    """The header names the algorithm, so it is another header, and the ring has no such key."""
    for mine, other in (ALGORITHMS, ALGORITHMS[::-1]):
        same_secret = Maker("key-1", other, secret(f"key-1 {mine}"))
        with pytest.raises(UnknownKeyError):
            sealer(key(alg=mine)).open(same_secret.token(PAYLOAD), NOW)


def test_a_frame_that_contradicts_the_header_in_it_is_malformed() -> None:
    """A MAC over an encrypted key's header, or the reverse, whatever the secret."""
    for mine, other in (ALGORITHMS, ALGORITHMS[::-1]):
        header = encode({1: independent.ALGS[mine], 4: b"key-1"})
        confused = Maker("key-1", other, secret(f"key-1 {mine}"), header)
        with pytest.raises(MalformedTokenError):
            sealer(key(alg=mine)).open(confused.token(PAYLOAD), NOW)


HEADERS: dict[str, bytes] = {
    "crit": encode({1: 3, 2: [-65537], 4: b"key-1"}),
    "another order": encode({4: b"key-1", 1: 3}),
    "no kid": encode({1: 3}),
    "no alg": encode({4: b"key-1"}),
    "an iv in it": encode({1: 3, 4: b"key-1", 5: IV}),
    "alg as text": encode({1: "A256GCM", 4: b"key-1"}),
    "alg A128GCM": encode({1: 1, 4: b"key-1"}),
    "alg HMAC 256/64": encode({1: 4, 4: b"key-1"}),
    "alg none": encode({1: 0, 4: b"key-1"}),
    "kid as text": encode({1: 3, 4: "key-1"}),
    "kid twice": b"\xa3\x01\x03\x04\x45key-1\x04\x45key-1",
    "alg in two bytes": b"\xa2\x01\x18\x03\x04\x45key-1",
    "kid in a longer form": b"\xa2\x01\x03\x04\x58\x05key-1",
    "an indefinite map": b"\xbf\x01\x03\x04\x45key-1\xff",
    "a trailing byte": encode({1: 3, 4: b"key-1"}) + b"\0",
    "a shorter kid": encode({1: 3, 4: b"key-"}),
    "a longer kid": encode({1: 3, 4: b"key-11"}),
    "a path for a kid": encode({1: 3, 4: b"../../dev/null"}),
    "sql for a kid": encode({1: 3, 4: b"' OR 1=1 --"}),
    "nothing": b"\xa0",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_no_other_header_finds_the_key_even_if_its_owner_authenticated_it(header: bytes) -> None:
    forged = Maker("key-1", "A256GCM", secret("key-1 A256GCM"), header).token(PAYLOAD)
    with pytest.raises(UnknownKeyError):
        sealer().open(forged, NOW)


# --- 5: authentication --------------------------------------------------------------------------


@each_alg
def test_another_secret_under_the_same_kid_does_not_authenticate(alg: str) -> None:
    forged = Maker("key-1", alg, secret("mallory")).token(PAYLOAD)
    with pytest.raises(AuthenticationError) as caught:
        sealer(key(alg=alg)).open(forged, NOW)
    assert (caught.value.key_id, caught.value.token_id) == ("key-1", None)


@each_alg
def test_a_kid_transplanted_onto_another_tokens_body_does_not_authenticate(alg: str) -> None:
    both = (key("key-1", alg), key("key-2", alg, nbf=NOW - 5))
    moved = message_of(token_of(alg)).replace(b"key-1", b"key-2")
    with pytest.raises(AuthenticationError) as caught:
        sealer(*both).open(text_of(moved), NOW)
    assert caught.value.key_id == "key-2"


def test_the_content_key_is_the_one_that_is_derived_and_not_the_secret() -> None:
    """Who holds a JWK must not be able to seal with a plain COSE library by mistake."""
    assert opened(sealer(), maker().token(PAYLOAD))[0] == PAYLOAD
    for alg in ALGORITHMS:
        assert token_of(alg) == maker(alg=alg).token(PAYLOAD, iv=IV)


@each_alg
def test_parts_of_two_tokens_make_no_third(alg: str) -> None:
    """IV, body and tag from one or the other, in every combination."""
    one, other = (
        message_of(maker(alg=alg).token(payload, iv=iv))
        for payload, iv in ((b"pay alice 1", b"\x01" * 12), (b"pay mallory", b"\x02" * 12))
    )
    here = sealer(key(alg=alg))
    size = 32 if alg == "HS256" else 16
    iv_at = one.index(b"\xa1\x05\x4c") + 3 if alg == "A256GCM" else len(one) - size
    borders = [0, iv_at, min(iv_at + 12, len(one) - size), len(one) - size, len(one)]
    for choice in itertools.product((one, other), repeat=4):
        message = b"".join(
            part[begin:end] for part, begin, end in zip(choice, borders, borders[1:], strict=False)
        )
        if message in (one, other):
            assert opened(here, text_of(message))[1] == "key-1"
        else:
            with pytest.raises(AuthenticationError):
                here.open(text_of(message), NOW)


def test_a_hmac_tag_is_compared_in_constant_time_and_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a prefix nor a suffix of the right tag will do, and compare_digest is what looks."""
    import hmac

    message = message_of(token_of("HS256"))
    for kept in range(32):
        for tag in (
            message[-32:][:kept] + bytes(32 - kept),
            bytes(32 - kept) + message[-32:][32 - kept :],
        ):
            with pytest.raises(AuthenticationError):
                sealer(key(alg="HS256")).open(text_of(message[:-32] + tag), NOW)
    seen: list[tuple[object, object]] = []
    compare = hmac.compare_digest

    def watched(one: bytes, other: bytes) -> bool:
        seen.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    monkeypatch.setattr("statebox.envelope.compare_digest", watched, raising=False)
    sealer(key(alg="HS256")).open(token_of("HS256"), NOW)
    assert (message[-32:], message[-32:]) in seen


# --- the tag of a principal ---------------------------------------------------------------------


class AnyCase(str):
    """A text that equals its other spellings, as some frameworks have for header and user names."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


ALICES: list[Principal] = [
    "Alice",
    "alice",
    AnyCase("Alice"),
    AnyCase("alice"),
    ("Alice",),
    ["alice"],
    (AnyCase("alice"),),
    ("iss", "Alice"),
    ("iss", AnyCase("alice")),
    ("iss", "alice"),
]


def test_a_tag_follows_from_the_principal_and_never_from_who_came_before() -> None:
    """The last tag is kept for the next call; an `__eq__` of a subclass must not find it."""
    slot = sealer().active(NOW)
    for before, principal in itertools.product(ALICES, repeat=2):
        slot.principal_tag(before)
        fresh = sealer().active(NOW)
        assert slot.principal_tag(principal) == fresh.principal_tag(principal)


@pytest.mark.parametrize("size", [250, 5000])
def test_a_key_remembers_no_more_than_some_principals(size: int) -> None:
    slot = sealer().active(NOW)
    tracemalloc.start()
    try:
        for number in range(5000):
            slot.principal_tag(f"{number:{size}}")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1024 * 500, "with every one of them it would be megabytes"


@pytest.mark.parametrize("wrong", [ANY, ("iss", ANY), (ANY, ANY), [ANY]], ids=repr)
def test_what_equals_everything_is_no_principal(wrong: Any) -> None:
    slot = sealer().active(NOW)
    for before in ("alice", ("iss", "alice")):
        slot.principal_tag(before)
        with pytest.raises(TypeError, match="principal"):
            slot.principal_tag(wrong)


# --- rings that change --------------------------------------------------------------------------


class Swapped:
    """A source that gives the next of its rings at every look, and again the first after the last."""

    def __init__(self, *rings: Keyring, later: Keyring | None = None) -> None:
        self.rings: Iterator[Keyring] = itertools.cycle(rings)
        self.later = later
        self.reread_count = 0
        self.last = rings[0]

    def current(self) -> Keyring:
        self.last = next(self.rings)
        return self.last

    def reread(self) -> Keyring:
        self.reread_count += 1
        if self.later is not None:
            self.rings = itertools.repeat(self.later)
            self.last = self.later
        return self.last


class Broken(Swapped):
    def reread(self) -> Keyring:
        raise ValueError("a bug of whoever wrote this source")


def test_what_a_source_raises_is_not_taken_for_a_malformed_token() -> None:
    here = Sealer(Broken(Keyring([key("another")])))
    with pytest.raises(ValueError, match="a bug of whoever"):
        here.open(token_of(), NOW)


def test_a_frame_that_contradicts_its_header_makes_no_source_look_again() -> None:
    source = Swapped(Keyring([key()]))
    header = encode({1: independent.ALGS["A256GCM"], 4: b"key-1"})
    with pytest.raises(MalformedTokenError):
        Sealer(source).open(Maker("key-1", "HS256", secret("x"), header).token(PAYLOAD), NOW)
    assert source.reread_count == 0


def test_a_token_of_an_unknown_key_makes_a_source_look_again_once() -> None:
    source = Swapped(Keyring([key()]), later=Keyring([key(), key("new", nbf=NOW)]))
    here = Sealer(source, clock=Clock())
    assert opened(here, maker("new").token(PAYLOAD)) == (PAYLOAD, "new")
    assert source.reread_count == 1
    assert here.active(NOW).key.kid == "new"
    assert opened(here, maker("new").token(PAYLOAD)) == (PAYLOAD, "new")
    assert source.reread_count == 1


def test_a_malformed_token_never_makes_a_source_look_again() -> None:
    """An attacker who may send anything must not be able to have a file read for it."""
    source = Swapped(Keyring([key()]))
    here = Sealer(source, clock=Clock())
    message = message_of(token_of())
    for token in ("", "x", "sb1.AAAA", text_of(message[:-1]), text_of(b"\xd1\x84" + message[2:])):
        with pytest.raises(MalformedTokenError):
            here.open(token, NOW)
    with pytest.raises(AuthenticationError):
        here.open(text_of(message[:-1] + bytes([message[-1] ^ 1])), NOW)
    assert source.reread_count == 0


def test_a_revocation_counts_from_the_next_look_on() -> None:
    source = Swapped(Keyring([key()]), Keyring([key()]), Keyring([key(revoked=Revocation(NOW))]))
    here = Sealer(source, clock=Clock())
    assert opened(here, token_of()) == (PAYLOAD, "key-1")
    with pytest.raises(RevokedKeyError):
        here.open(token_of(), NOW)


def test_a_ring_that_changes_at_every_look_never_mixes_two() -> None:
    """Old and new have one kid and two secrets: a mixture would not authenticate."""
    new = Key(kid="key-1", alg="A256GCM", secret=secret("another"), nbf=NOW - 1)
    source = Swapped(Keyring([key()]), Keyring([new]))
    here = Sealer(source, clock=Clock())
    for _ in range(10):
        token = here.seal(here.active(NOW), PAYLOAD, IV)
        which = key() if source.last.get("key-1") == key() else new
        assert opened(Sealer(Keyring([which])), token)[0] == PAYLOAD


class Interrupted(float):
    """A time that lets something else happen in the middle of its first comparison."""

    __slots__ = ("then",)
    then: list[Callable[[], object]]

    def __ge__(self, other: float) -> bool:
        if self.then:
            self.then.pop()()
        return float(self) >= other


def test_a_thread_that_is_interrupted_while_it_looks_for_the_active_key_mixes_no_two_answers() -> (
    None
):
    """What another thread finds for a later time must not lend its dates to this one's key."""
    here = sealer(key("old", nbf=NOW - 10), key("new", nbf=NOW))
    assert here.active(NOW - 5).key.kid == "old"
    now = Interrupted(NOW + 5)
    now.then = [lambda: here.active(NOW)]
    assert here.active(now).key.kid == "new"


def test_a_clock_that_goes_back_goes_back_to_the_key_of_that_time() -> None:
    here = sealer(key("old", nbf=NOW - 10), key("new", nbf=NOW, exp=NOW + 20))
    times = [(-1, "old"), (0, "new"), (-0.001, "old"), (19.999, "new"), (20, "old"), (5, "new")]
    for after, kid in times * 2:
        assert here.active(NOW + after).key.kid == kid


@each_alg
def test_threads_share_a_sealer_while_its_ring_is_swapped(alg: str) -> None:
    rings = [Keyring([key("a", alg)]), Keyring([key("a", alg), key("b", alg, nbf=NOW)])]
    here = Sealer(Swapped(*rings, later=rings[1]), clock=Clock())
    together = threading.Barrier(4)

    def work(number: int) -> None:
        together.wait()
        for turn in range(60):
            payload = bytes([number, turn]) * 50
            iv = bytes([number, turn]) * 6
            token = here.seal(here.active(NOW), payload, iv)
            assert here.open(token, NOW)[0] == payload

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


# --- configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize("keyring", [None, "keyring.json", {"keys": []}, [key()], 5], ids=ascii)
def test_what_is_no_ring_and_no_source_is_a_type_error(keyring: object) -> None:
    with pytest.raises(TypeError, match="Keyring or a live source"):
        Sealer(cast("Keyring", keyring))


def test_the_work_of_opening_grows_no_faster_than_the_token() -> None:
    for alg in ALGORITHMS:
        here = sealer(key(alg=alg))
        short, long = (token_of(alg, bytes(size)) for size in (400, 40_000))
        here.open(short, NOW)  # which derives the key
        assert calls(lambda: here.open(short, NOW)) == calls(lambda: here.open(long, NOW))  # noqa: B023 - called at once

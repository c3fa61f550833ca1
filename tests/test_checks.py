"""Steps 6 to 11: what an authentic token claims, checked in the format's order."""

from __future__ import annotations

import hmac
import itertools
from dataclasses import dataclass
from typing import Any, cast

import pytest

from statebox import (
    AudienceError,
    ClaimError,
    ExpiredFlowError,
    ExpiredTokenError,
    FutureTokenError,
    MalformedTokenError,
    OpenError,
    PrincipalError,
    Request,
    RequestError,
    TooManyRoundsError,
)
from statebox.bindings import Principal
from statebox.checks import check
from statebox.claims import Decoded, Fields, Layout, token_id
from statebox.keyring import Keyring
from statebox.sealer import Sealer
from tests.samples import ALGORITHMS, NOW, REQUEST, Clock, box, key, maker, ring, secret, shown
from tests.vectors import independent
from tests.vectors.forge import payload_of

each_alg = pytest.mark.parametrize("alg", ALGORITHMS)

CALL = {
    "method": "tools/call",
    "target": "refund",
    "arguments": {"order": "ORD-7001", "cents": 1500},
}


def claims(alg: str = "A256GCM", **changes: object) -> bytes:
    """Write a payload that is bound to alice and to CALL, with some claims changed."""
    bound = {
        "principal": independent.principal_tag(secret(f"key-1 {alg}"), "alice"),
        "request": independent.request_item(CALL),
    }
    return payload_of(**bound | changes)


def refusal(
    token: str,
    *,
    alg: str = "A256GCM",
    now: float = NOW,
    principal: Principal | None = "alice",
    request: Request | None = REQUEST,
    max_rounds: int = 32,
    leeway: float = 60,
) -> OpenError | None:
    here = box(alg, Clock(now), max_rounds=max_rounds, leeway=leeway)
    try:
        here.open(token, principal=principal, request=request)
    except OpenError as error:
        return error
    return None


@each_alg
def test_a_token_whose_every_check_holds_opens(alg: str) -> None:
    assert refusal(maker(alg=alg).token(claims(alg)), alg=alg) is None


# --- 6 to 11, one by one ------------------------------------------------------------------------


@each_alg
def test_6_a_payload_of_another_shape_is_malformed_even_under_the_right_key(alg: str) -> None:
    for payload in (
        b"",
        claims(alg) + b"\0",
        claims(alg)[:-1],
        b"\xa0",
        claims(alg, state={1.5: 1}),
    ):
        error = refusal(maker(alg=alg).token(payload), alg=alg)
        assert isinstance(error, MalformedTokenError)


@each_alg
def test_6_a_state_is_decoded_before_any_claim_is_believed(alg: str) -> None:
    """So that a token is never half trusted: this one is for another audience as well."""
    token = maker(alg=alg).token(claims(alg, aud="others", state={1.5: 1}))
    assert isinstance(refusal(token, alg=alg), MalformedTokenError)


@each_alg
def test_7_a_token_for_another_audience_is_refused(alg: str) -> None:
    for other in ("billin", "billing2", "Billing", "billinG", "billing ", "b"):
        assert isinstance(
            refusal(maker(alg=alg).token(claims(alg, aud=other)), alg=alg), AudienceError
        )


@each_alg
def test_8_a_token_may_be_issued_up_to_the_leeway_ahead_and_no_further(alg: str) -> None:
    token = maker(alg=alg).token(claims(alg))
    assert refusal(token, alg=alg, now=NOW - 60) is None
    assert isinstance(refusal(token, alg=alg, now=NOW - 60.001), FutureTokenError)
    assert isinstance(refusal(token, alg=alg, now=NOW - 1, leeway=0), FutureTokenError)
    assert refusal(token, alg=alg, now=NOW, leeway=0) is None
    assert refusal(token, alg=alg, now=NOW - 600, leeway=600) is None


@each_alg
def test_8_a_token_is_expired_from_its_exp_on(alg: str) -> None:
    token = maker(alg=alg).token(claims(alg))
    assert refusal(token, alg=alg, now=NOW + 599.999) is None
    for now in (NOW + 600, NOW + 600.5, NOW + 10**6):
        assert isinstance(refusal(token, alg=alg, now=now), ExpiredTokenError)
    # The leeway is for clocks that are ahead, and lengthens no token.
    assert isinstance(refusal(token, alg=alg, now=NOW + 600, leeway=3600), ExpiredTokenError)


@dataclass
class Lax:
    """A layout that lets contradictions pass."""

    fields: Fields
    audience: bytes = b"billing"

    def decode(self, _payload: bytes, _request: bytes | None) -> Decoded:
        return self.fields, None, None, b"\xf6"


@each_alg
def test_8_a_flow_is_over_from_its_deadline_on_whatever_the_token_says(alg: str) -> None:
    """The shape has exp <= deadline, so that exp comes first; this check does not rely on it."""
    opened = Sealer(ring(alg)).open(maker(alg=alg).token(b""), NOW)
    fields = (b"billing", NOW + 600, NOW, b"\x01" * 8, 1, NOW + 9)
    for now, over in ((NOW + 8.999, False), (NOW + 9, True), (NOW + 599, True)):
        layout = cast("Layout", Lax(fields))
        if over:
            with pytest.raises(ExpiredFlowError):
                check(opened, now, layout, 60, 32, None, None)
        else:
            assert check(opened, now, layout, 60, 32, None, None).deadline == NOW + 9


@each_alg
def test_8_the_last_token_of_a_flow_ends_with_the_flow(alg: str) -> None:
    token = maker(alg=alg).token(claims(alg, exp=NOW + 9, deadline=NOW + 9))
    assert refusal(token, alg=alg, now=NOW + 8.999) is None
    error = refusal(token, alg=alg, now=NOW + 9)
    assert isinstance(error, ExpiredTokenError | ExpiredFlowError)


@each_alg
def test_9_a_round_over_the_cap_is_refused(alg: str) -> None:
    for number, cap in ((32, 32), (1, 1), (65535, 65535), (300, 300)):
        token = maker(alg=alg).token(claims(alg, round=number))
        assert refusal(token, alg=alg, max_rounds=cap) is None
        if cap > 1:
            assert isinstance(refusal(token, alg=alg, max_rounds=cap - 1), TooManyRoundsError)


STRANGERS: list[Principal | None] = [
    "bob",
    "Alice",
    "alice ",
    "",
    [],
    ["alice", ""],
    ["al", "ice"],
    ("alice", "alice"),
    "a\u200blice",
    "\ud800",
    None,
]


@each_alg
@pytest.mark.parametrize("stranger", STRANGERS, ids=shown)
def test_10_nobody_but_its_principal_opens_a_token(alg: str, stranger: Principal | None) -> None:
    token = maker(alg=alg).token(claims(alg))
    assert isinstance(refusal(token, alg=alg, principal=stranger), PrincipalError)
    assert refusal(token, alg=alg, principal=["alice"]) is None


@each_alg
def test_10_a_token_bound_to_nobody_opens_only_for_nobody(alg: str) -> None:
    token = maker(alg=alg).token(claims(alg, principal=None))
    assert refusal(token, alg=alg, principal=None) is None
    for somebody in ("alice", "", [], [""]):
        assert isinstance(refusal(token, alg=alg, principal=somebody), PrincipalError)


@each_alg
def test_10_the_tag_of_one_key_is_no_tag_under_another(alg: str) -> None:
    tag = independent.principal_tag(secret("another"), "alice")
    token = maker(alg=alg).token(claims(alg, principal=tag))
    assert isinstance(refusal(token, alg=alg), PrincipalError)


ORDER = {"order": "ORD-7001", "cents": 1500}
OTHERS: dict[str, Request | None] = {
    "another tool": Request("tools/call", "pay", ORDER),
    "another method": Request("prompts/get", "refund", ORDER),
    "a method of another name": Request("tools/call2", "refund", ORDER),
    "other arguments": Request("tools/call", "refund", {**ORDER, "cents": 1501}),
    "one argument more": Request("tools/call", "refund", {**ORDER, "to": None}),
    "one argument less": Request("tools/call", "refund", {"order": "ORD-7001"}),
    "no arguments": Request("tools/call", "refund"),
    "no request": None,
}


@each_alg
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_11_no_request_but_its_own_opens_a_token(alg: str, other: Request | None) -> None:
    token = maker(alg=alg).token(claims(alg))
    assert isinstance(refusal(token, alg=alg, request=other), RequestError)
    same = Request("tools/call", "refund", {"cents": 1.5e3, "order": "ORD-7001"})
    assert refusal(token, alg=alg, request=same) is None


@each_alg
def test_11_a_token_bound_to_no_request_opens_only_without_one(alg: str) -> None:
    token = maker(alg=alg).token(claims(alg, request=None))
    assert refusal(token, alg=alg, request=None) is None
    assert isinstance(refusal(token, alg=alg), RequestError)


@pytest.mark.parametrize(
    "value", ["tools/call", 5, ("tools/call", "refund"), b"", object()], ids=shown
)
def test_11_what_is_no_request_is_a_type_error_and_never_a_match(value: Any) -> None:
    for sealed in (claims(), claims(request=None)):
        with pytest.raises(TypeError, match=r"statebox\.Request, or None"):
            refusal(maker().token(sealed), request=value)
    with pytest.raises(TypeError, match=r"statebox\.Request, or None"):
        box().seal("s", principal=None, request=value)


@pytest.mark.parametrize(
    "value", [5, b"alice", {"alice"}, object(), [None], ["alice", 5]], ids=shown
)
def test_10_what_is_no_principal_is_a_type_error_and_never_a_match(value: Any) -> None:
    for sealed in (claims(), claims(principal=None)):
        with pytest.raises(TypeError, match="principal"):
            refusal(maker().token(sealed), principal=value)


# --- the order ----------------------------------------------------------------------------------

DEFECTS: list[tuple[str, dict[str, Any]]] = [
    ("malformed", {"state": {1.5: 1}}),
    ("audience", {"aud": "others"}),
    ("issued_in_future", {"iat": NOW + 61}),
    ("expired", {"exp": NOW}),
    ("too_many_rounds", {"round": 33}),
    ("principal", {"principal": None}),
    ("request", {"request": None}),
]
CODES = [code for code, _ in DEFECTS]
# No token is both issued in the future and expired, for iat <= exp.
PAIRS = [pair for pair in itertools.combinations(range(len(DEFECTS)), 2) if pair != (2, 3)]


@each_alg
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda index: CODES[int(index)])
def test_of_two_defects_the_first_in_the_formats_order_is_named(
    alg: str, first: int, second: int
) -> None:
    changes = DEFECTS[second][1] | DEFECTS[first][1]
    error = refusal(maker(alg=alg).token(claims(alg, **changes)), alg=alg)
    assert error is not None
    assert error.code == DEFECTS[first][0]


@pytest.mark.parametrize(("code", "changes"), DEFECTS, ids=CODES)
def test_the_key_comes_before_every_claim(code: str, changes: dict[str, Any]) -> None:
    token = maker().token(claims(**changes))
    first = refusal(token)
    assert first is not None
    assert first.code == code
    expired = box(Keyring([key(exp=NOW)]))
    with pytest.raises(OpenError) as caught:
        expired.open(token, principal="alice", request=REQUEST)
    assert caught.value.code == "expired_key"


# --- what a refusal says ------------------------------------------------------------------------


@each_alg
@pytest.mark.parametrize(("code", "changes"), DEFECTS, ids=CODES)
def test_a_refused_claim_names_key_token_flow_round_and_times(
    alg: str, code: str, changes: dict[str, Any]
) -> None:
    token = maker(alg=alg).token(claims(alg, **changes))
    error = refusal(token, alg=alg)
    assert error is not None
    assert (error.code, error.key_id) == (code, "key-1")
    assert error.token_id == token_id(independent.message_of(token))
    if code == "malformed":
        assert not isinstance(error, ClaimError)
        return
    assert isinstance(error, ClaimError)
    assert error.flow == "01" * 8
    assert error.round == changes.get("round", 1)
    assert error.issued_at == changes.get("iat", NOW)
    assert error.expires_at == changes.get("exp", NOW + 600)


def test_a_refusal_says_how_a_binding_differs() -> None:
    for payload, principal, said in (
        (claims(), "bob", "bound to another principal"),
        (claims(), None, "bound to a principal, and none was presented"),
        (claims(principal=None), "alice", "bound to no principal, and one was presented"),
    ):
        error = refusal(maker().token(payload), principal=principal)
        assert error is not None
        assert error.message == said


# --- clocks -------------------------------------------------------------------------------------

NO_TIMES = [float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e300, -1e300]


@each_alg
@pytest.mark.parametrize("now", NO_TIMES, ids=str)
def test_a_clock_that_shows_no_time_opens_nothing_and_raises_nothing_else(
    alg: str, now: float
) -> None:
    token = maker(alg=alg).token(claims(alg))
    assert refusal(token, alg=alg, now=now) is not None
    # The key may be refused before; the claims do not rely on that.
    with pytest.raises(ClaimError) as caught:
        check(Sealer(ring(alg)).open(token, NOW), now, Layout(b"billing"), 60, 32, "alice", REQUEST)
    # Of NaN nothing holds, so that the first of the comparisons decides.
    late = now > NOW
    assert isinstance(caught.value, ExpiredTokenError if late else FutureTokenError)


def test_whatever_a_decoder_raises_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a frame of any other error stands the payload, for a reporter of errors to keep."""

    def fault(_data: bytes) -> None:
        raise IndexError

    monkeypatch.setattr("statebox.checks.decode_state", fault)
    assert isinstance(refusal(maker().token(claims())), MalformedTokenError)


def test_bindings_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    compare = hmac.compare_digest

    def watched(one: bytes, other: bytes) -> bool:
        seen.extend((one, other))
        return compare(one, other)

    for room in ("checks", "claims"):
        monkeypatch.setattr(f"statebox.{room}.compare_digest", watched)
    for principal, request in (("bob", REQUEST), ("alice", Request("tools/call", "pay"))):
        refusal(maker().token(claims()), principal=principal, request=request)
    assert independent.principal_tag(secret("key-1 A256GCM"), "bob") in seen
    assert Request("tools/call", "pay").cbor in seen

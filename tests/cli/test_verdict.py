"""inspect never contradicts the server: its first failing check is the error of Statebox.open."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox import Keyring, OpenError, Request, Statebox
from statebox.bindings import Principal
from statebox_cli.find import Call
from statebox_cli.judging import CHECKS, Context
from statebox_cli.verdict import judge
from tests.cli.test_failures import codec_token
from tests.cli.tokens import CALL, RING, bound_token, token
from tests.samples import NOW, maker, secret
from tests.states import states
from tests.vectors.forge import Maker, payload_of
from tests.vectors.independent import VECTORS
from tests.vectors.plain_cbor import encode

FILE = json.loads(VECTORS.read_text("utf-8"))
VECTOR_RING = Keyring.from_jwks(FILE["keyring"])
CALL_MADE = Call(CALL["method"], CALL["params"])


def context_of(vector: dict[str, Any]) -> Context:
    principal, request = vector["principal"], vector["request"]
    call = None
    if request is not None:
        name = "uri" if request["method"] == "resources/read" else "name"
        call = Call(request["method"], {**request, name: request["target"]})
    return Context(
        now=vector["now"],
        audience=vector["audience"],
        principal=(principal,) if isinstance(principal, str) else principal and tuple(principal),
        principal_known=True,
        call=call,
        call_known=True,
        codec=False,
    )


def error_of_open(text: str, ring: Keyring, context: Context) -> str | None:
    audience = cast("str", context.audience)
    call = context.call
    box = Statebox(ring, audience=audience, clock=lambda: context.now)
    try:
        box.open(
            text,
            principal=context.principal,
            request=None if call is None else Request.from_params(call.method, call.params),
        )
    except OpenError as error:
        return error.code
    return None


def error_of_judge(text: str, ring: Keyring, context: Context) -> str | None:
    verdict = judge(text, [ring], context)
    assert {check.name for check in verdict.checks} == set(CHECKS)
    return None if verdict.problem is None else verdict.problem.code


@pytest.mark.parametrize("vector", FILE["cases"], ids=[case["name"] for case in FILE["cases"]])
def test_every_vector_gets_the_verdict_that_the_library_gives(vector: dict[str, Any]) -> None:
    context = context_of(vector)
    verdict = error_of_judge(vector["token"], VECTOR_RING, context)
    assert verdict == error_of_open(vector["token"], VECTOR_RING, context)
    assert (verdict or "ok") in vector["expect"].split("|")


contexts = st.builds(
    Context,
    now=st.integers(-100, 5000).map(lambda seconds: float(NOW + seconds)),
    audience=st.sampled_from(["billing", "refunds"]),
    principal=st.sampled_from([None, ("alice",), ("bob",), ("alice", "bob")]),
    principal_known=st.just(value=True),
    call=st.sampled_from([None, CALL_MADE, Call("tools/call", {"name": "other"})]),
    call_known=st.just(value=True),
    leeway=st.just(60),
    max_rounds=st.just(32),
    max_token_chars=st.just(65536),
    codec=st.just(value=False),
)
kids = st.sampled_from([key.kid for key in RING])
principals: st.SearchStrategy[Principal | None] = st.sampled_from([None, "alice", ("alice", "bob")])


@given(kids, principals, contexts, st.integers(0, 40), st.integers(0, 4000), st.data())
def test_every_token_gets_the_verdict_that_the_library_gives(
    kid: str,
    principal: Principal | None,
    context: Context,
    round_: int,
    life: int,
    data: st.DataObject,
) -> None:
    make = data.draw(st.sampled_from([token, bound_token]))
    text = make(kid, principal=principal, round=round_, exp=NOW - 60 + life)
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.sampled_from("ABab09-_.= ")) + text[place + 1 :]
    text = text[: data.draw(st.integers(0, len(text)) | st.just(len(text)))]
    assert error_of_judge(text, RING, context) == error_of_open(text, RING, context)


@given(st.text() | st.binary().map(lambda data: maker("2026-a").token(data)), contexts)
def test_anything_at_all_gets_the_verdict_that_the_library_gives(
    text: str, context: Context
) -> None:
    assert error_of_judge(text, RING, context) == error_of_open(text, RING, context)


@given(states)
def test_the_state_of_an_accepted_token_is_the_one_that_was_sealed(state: Any) -> None:
    text = maker("2026-a").token(payload_of(state=state))
    verdict = judge(text, [RING], Context(now=NOW))
    assert (verdict.problem, verdict.has_state, verdict.state) == (None, True, state)


@pytest.mark.parametrize("kid", ["2026-a", "2026-sign", "2026-unknown"])
@pytest.mark.parametrize("alg", ["A256GCM", "HS256"])
@pytest.mark.parametrize("named", [3, 5, 7])
def test_a_header_of_another_algorithm_gets_the_verdict_that_the_library_gives(
    kid: str, alg: str, named: int
) -> None:
    protected = encode({1: named, 4: kid.encode()})
    text = Maker(kid, alg, secret(f"{kid} {alg}"), protected).token(payload_of())
    context = Context(now=NOW, audience="billing")
    assert error_of_judge(text, RING, context) == error_of_open(text, RING, context)


def test_a_codec_s_token_is_judged_as_the_sdk_does_or_as_the_library_does() -> None:
    text = codec_token(exp=NOW - 1)
    as_sdk = judge(text, [RING], Context(now=NOW)).problem
    natively = judge(text, [RING], Context(now=NOW, codec=False)).problem
    assert as_sdk is not None
    assert natively is not None
    assert (as_sdk.code, natively.code) == ("expired", "malformed")
    assert "request_state_security()" in natively.message
    assert error_of_open(text, RING, Context(now=NOW, audience="billing")) == "malformed"


def test_checks_are_in_the_order_of_the_format() -> None:
    verdict = judge(bound_token(), [RING], Context(now=NOW))
    assert tuple(check.name for check in verdict.checks) == CHECKS


def test_nothing_of_a_token_is_told_before_it_is_authenticated() -> None:
    changed = bound_token("2026-sign")[:-4] + "AAAA"
    verdict = judge(changed, [RING], Context(now=NOW))
    assert verdict.problem is not None
    assert verdict.problem.code == "authentication"
    assert (verdict.claims, verdict.has_state) == (None, False)


def test_claims_are_told_without_who_they_are_bound_to() -> None:
    verdict = judge(bound_token(), [RING], Context(now=NOW))
    assert verdict.claims == {
        "audience": "billing",
        "issued_at": NOW - 60,
        "expires_at": NOW + 540,
        "deadline": NOW + 3540,
        "flow": "4a146cf0d98a98e1",
        "round": 1,
        "principal_bound": True,
        "request": {"method": "tools/call", "target": "refund"},
        "state_bytes": 14,
    }


@pytest.mark.parametrize("cap", [{"max_rounds": 3}, {"leeway": 5}, {"max_token_chars": 100}])
def test_a_server_that_is_configured_otherwise_is_judged_otherwise(cap: dict[str, int]) -> None:
    text = bound_token(round=4, iat=NOW + 30)
    assert judge(text, [RING], Context(now=NOW)).problem is None
    assert judge(text, [RING], Context(now=NOW, **cap)).problem is not None  # type: ignore[arg-type]

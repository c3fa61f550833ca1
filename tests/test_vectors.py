"""Two implementations that share no code: each opens what the other seals, and both hold the vectors."""

import itertools
import json
from typing import Any, cast

import pytest
from hypothesis import given, settings

from statebox import Continuation, Keyring, OpenError, Request, Statebox
from statebox.bindings import Principal
from statebox.state import State, encode_state
from tests.samples import ALGORITHMS, AUDIENCE, NOW, Clock, box, key, maker, ring, secret
from tests.states import any_text, arguments, states
from tests.vectors import independent
from tests.vectors.forge import payload_of
from tests.vectors.independent import Presenter
from tests.vectors.plain_cbor import RefusedError

VECTORS: dict[str, Any] = json.loads(independent.VECTORS.read_text("utf-8"))
CASES: list[dict[str, Any]] = VECTORS["cases"]
RING = Keyring.from_jwks(VECTORS["keyring"])

every_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def request_of(case: dict[str, Any]) -> Request | None:
    request = case["request"]
    if request is None:
        return None
    return Request(request["method"], request["target"], request.get("arguments"))


def open_case(case: dict[str, Any]) -> Continuation:
    vectors_box = Statebox(
        RING,
        audience=case["audience"],
        max_rounds=VECTORS["max_rounds"],
        leeway=VECTORS["leeway"],
        clock=Clock(case["now"]),
    )
    return vectors_box.open(case["token"], principal=case["principal"], request=request_of(case))


@every_case
def test_a_vector_opens_or_fails_as_it_says(case: dict[str, Any]) -> None:
    if case["expect"] != "ok":
        with pytest.raises(OpenError) as caught:
            open_case(case)
        assert caught.value.code in case["expect"].split("|")
        return
    turn = open_case(case)
    found = {
        "state_cbor": encode_state(turn.state).hex(),
        "flow": turn.flow,
        "round": turn.round,
        "key_id": turn.key_id,
    }
    assert found == {name: case.get(name, value) for name, value in found.items()}


@every_case
def test_the_second_implementation_agrees_on_every_vector(case: dict[str, Any]) -> None:
    assert independent.check_case(case, VECTORS) in case["expect"].split("|")


def test_there_are_179_vectors_with_names_of_their_own() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES) == 179
    assert sum("state_cbor" in case for case in CASES) >= 30


# --- what one seals, the other opens ------------------------------------------------------------

STATES: list[State] = [
    None,
    {"step": "confirm", "amount": 1500, "rate": 0.25, "notes": ["a", b"\x00\xff"], 7: {"x": None}},
    "text " * 30,
    [1 << 70, -(1 << 70), -0.0, 1e300, True],
]
PRINCIPALS: list[Principal | None] = [None, "alice", ("https://issuer", "alice", "client-7")]
REQUESTS: list[dict[str, Any] | None] = [
    None,
    {
        "method": "tools/call",
        "target": "refund",
        "arguments": {"order": "ORD-7001", "cents": 1.5e3},
    },
    {"method": "resources/read", "target": "file:///a b"},
    {"method": "completion/complete", "target": "\u00e9"},
]


def bound(request: dict[str, Any] | None) -> Request | None:
    return None if request is None else Request(**request)


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("principal", PRINCIPALS, ids=repr)
@pytest.mark.parametrize("request_", REQUESTS, ids=["none", "tool", "resource", "other"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_the_second_implementation_opens_what_statebox_seals(
    alg: str, principal: Principal | None, request_: dict[str, Any] | None, state: State
) -> None:
    token = box(alg).seal(state, principal=principal, request=bound(request_))
    turn = box(alg).open(token, principal=principal, request=bound(request_))
    who = Presenter(NOW, AUDIENCE, principal, request_)
    found = independent.open_token(token, ring(alg).to_jwks(), who)
    assert repr(found["state"]) == repr(state) == repr(turn.state)
    assert (found["flow"].hex(), found["round"]) == (turn.flow, turn.round)
    assert (found["iat"], found["exp"]) == (turn.issued_at, turn.expires_at) == (NOW, NOW + 600)
    assert found["deadline"] == turn.deadline == NOW + 3600
    assert (found["id"], found["kid"]) == (turn.token_id, turn.key_id)


@pytest.mark.parametrize("alg", ALGORITHMS)
@pytest.mark.parametrize("request_", REQUESTS, ids=["none", "tool", "resource", "other"])
@pytest.mark.parametrize("principal", PRINCIPALS, ids=repr)
def test_statebox_opens_what_the_second_implementation_seals(
    alg: str, principal: Principal | None, request_: dict[str, Any] | None
) -> None:
    payload = payload_of(
        principal=independent.principal_tag(secret(f"key-1 {alg}"), principal),
        request=independent.request_item(request_),
    )
    token = maker(alg=alg).token(payload)
    turn = box(alg).open(token, principal=principal, request=bound(request_))
    assert (turn.state, turn.flow, turn.round) == ({"step": "confirm"}, "01" * 8, 1)


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_both_write_the_same_bytes_for_the_same_claims(alg: str) -> None:
    """The iv and the flow are taken from the token; all else follows."""
    token = box(alg).seal({"a": [1]}, principal="alice", request=bound(REQUESTS[1]))
    message = independent.message_of(token)
    at = message.index(b"\xa1\x05\x4c") + 3 if alg == "A256GCM" else 0
    turn = box(alg).open(token, principal="alice", request=bound(REQUESTS[1]))
    payload = payload_of(
        flow=bytes.fromhex(turn.flow),
        principal=independent.principal_tag(secret(f"key-1 {alg}"), "alice"),
        request=independent.request_item(REQUESTS[1]),
        state={"a": [1]},
    )
    assert maker(alg=alg).token(payload, iv=message[at : at + 12]) == token


@pytest.mark.parametrize(
    ("now", "ttl", "rounds"),
    list(
        itertools.product(
            [0, 5, 0xFFFF, 0x10000, NOW, 0xFFFFFFFF, (1 << 40) - 9000], [1, 3600], [1, 30]
        )
    ),
)
def test_times_and_rounds_of_every_width_are_written_alike(now: int, ttl: int, rounds: int) -> None:
    clock = Clock(now)
    keys = [key(nbf=0)]
    here = box(keys, clock, ttl=ttl, max_flow_age=3700)
    turn: Continuation | None = None
    token = ""
    for _ in range(rounds):
        token = here.seal("s", principal=None, request=None, after=turn)
        turn = here.open(token, principal=None, request=None)
    found = independent.open_token(token, Keyring(keys).to_jwks(), Presenter(now, AUDIENCE))
    assert (found["round"], found["iat"], found["exp"]) == (rounds, now, now + ttl)
    assert found["deadline"] == now + 3700


@settings(max_examples=50)
@given(state=states, principal=any_text | any_text.map(lambda part: ["iss", part]), call=arguments)
def test_both_open_whatever_statebox_seals(
    state: State, principal: Principal, call: dict[str, object]
) -> None:
    request = {"method": "tools/call", "target": "t", "arguments": call}
    for alg in ALGORITHMS if any(principal) else ():
        token = box(alg).seal(state, principal=principal, request=bound(request))
        turn = box(alg).open(token, principal=principal, request=bound(request))
        who = Presenter(NOW, AUDIENCE, principal, request)
        found = independent.open_token(token, ring(alg).to_jwks(), who)
        assert repr(turn.state) == repr(found["state"]) == repr(state)


# --- what one refuses, the other refuses --------------------------------------------------------


def codes(token: str, **who: Any) -> tuple[str, str]:
    """Open a token by both; the codes of what they say."""
    presenter = Presenter(NOW, AUDIENCE, **who)
    theirs = ours = "ok"
    try:
        independent.open_token(token, ring().to_jwks(), presenter)
    except RefusedError as refused:
        theirs = cast("str", refused.args[0])
    try:
        box(ring()).open(
            token,
            principal=cast("Principal", presenter.principal),
            request=bound(presenter.request),
        )
    except OpenError as error:
        ours = error.code
    return ours, theirs


ODD: list[object] = [
    None,
    True,
    0,
    1,
    -1,
    24,
    300,
    0.5,
    "",
    "a",
    b"",
    b"\x01" * 8,
    b"\x01" * 16,
    [],
    {},
    1 << 40,
]


@pytest.mark.parametrize(
    "claim", ["aud", "exp", "iat", "flow", "round", "deadline", "principal", "request", "state"]
)
@pytest.mark.parametrize("value", ODD, ids=ascii)
def test_both_judge_an_authentic_payload_with_an_odd_claim_alike(claim: str, value: object) -> None:
    ours, theirs = codes(maker().token(payload_of(**{claim: value})))
    assert ours == theirs


def test_both_judge_an_authentic_payload_with_any_byte_changed_alike() -> None:
    payload = payload_of(request=[2, "t", b"\x05" * 16], principal=b"\x06" * 16, round=40)
    for at, step in itertools.product(range(len(payload)), (1, 0x20, 0x80, 0xFF)):
        changed = payload[:at] + bytes([payload[at] ^ step]) + payload[at + 1 :]
        ours, theirs = codes(maker().token(changed))
        assert ours == theirs, f"byte {at} ^ {step}: {changed.hex()}"


def test_both_judge_an_authentic_payload_cut_anywhere_alike() -> None:
    payload = payload_of(request=["x/y", "t", b"\x05" * 16], principal=b"\x06" * 16)
    for end in range(len(payload)):
        assert codes(maker().token(payload[:end])) == ("malformed", "malformed")
        assert codes(maker().token(payload[end:])) in [("malformed",) * 2, ("principal",) * 2]
    assert codes(maker().token(payload + b"\xf6")) == ("malformed", "malformed")

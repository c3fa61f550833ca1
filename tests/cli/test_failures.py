"""The ways in which a token fails in practice, and what the person on call reads.

Each row: what was presented, the exit code, `error.code`, and the sentence at the end.
"""

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from statebox import Keyring, Request
from tests.cli.terminal import Ran, run
from tests.cli.tokens import CALL, RING, SECOND, bound_token, message, ring_file, token
from tests.samples import NOW, key, maker, secret
from tests.vectors.forge import Maker, payload_of

GOOD = bound_token()
NO_ARGUMENTS = token(request=Request("tools/call", "refund"))


class Way(NamedTuple):
    """One way to fail: what came in, against what it is checked, and what is said."""

    text: str
    code: int
    error: str
    sentence: str
    options: tuple[str, ...] = ("--principal", "alice", "--audience", "billing")
    second_ring: Keyring | None = None


def call(**params: Any) -> dict[str, Any]:
    return {**CALL, "params": {**CALL["params"], **params}}


def codec_token(kid: str = "2026-a", **claims: Any) -> str:
    """Make what the codec for the SDK seals, which holds the SDK's claims."""
    from statebox.mcp.sdk_claims import encode_claims

    given = {
        "v": 1,
        "iat": NOW - 60,
        "exp": NOW + 540,
        "m": "tools/call",
        "t": "refund",
        "a": "AAAAAAAAAAAAAAAAAAAAAA",
        "s": "step 2",
        "aud": "billing",
    } | claims
    alg = "HS256" if kid == "2026-sign" else "A256GCM"
    payload = encode_claims(json.dumps(given, separators=(",", ":")).encode())
    return maker(kid, alg).token(payload)


RENAMED = Maker("2026-a", "A256GCM", secret("2026-old A256GCM")).token(payload_of())
OTHER_SECRET = Maker("2026-a", "A256GCM", secret("another replica's")).token(payload_of())
OTHER_RING = Keyring([Keyring.generate(now=NOW - 5).active(NOW), key("2026-gone", nbf=NOW - 9)])
ANOTHER_SECRET_RING = Keyring(
    [type(key("x"))(kid="2026-a", alg="A256GCM", secret=secret("another replica's"), nbf=1)]
)
AS_BOB = ("--principal", "bob")
LONG_ID = ("--principal", "iss", "--principal", "alice", "--principal", "app")

WAYS = {
    "cut short by a terminal": Way(
        GOOD[:150], 3, "malformed", "the token is cut short: at least 52 characters are missing"
    ),
    "cut within its header": Way(
        GOOD[:14], 3, "malformed", "the token is cut short: it ends within its header"
    ),
    "an ellipsis in it": Way(
        f"{GOOD[:60]}…{GOOD[-20:]}",
        3,
        "malformed",
        "a part left out at character 61, by what showed it",
    ),
    "something appended": Way(f"{GOOD}AAAA", 3, "malformed", "3 bytes too many: something was"),
    "lower case throughout": Way(
        GOOD.lower(),
        3,
        "malformed",
        "all in lower case, and base64url is lost without its capitals",
    ),
    "no prefix in the message": Way(
        message(GOOD[4:]), 3, "malformed", "changed on its way: a missing prefix (sb1.)"
    ),
    "URL-encoded by the client": Way(
        message(GOOD.replace(".", "%2E")), 3, "malformed", "changed on its way: URL-encoding"
    ),
    "padded by the client": Way(
        message(f"{GOOD}=="), 3, "malformed", "standard base64 in the place of base64url"
    ),
    "a blank kept by the client": Way(
        message(f"{GOOD}\n"), 3, "malformed", "changed on its way: blanks around it"
    ),
    "an empty string": Way(message(""), 3, "malformed", "there is no text"),
    "not a string": Way(
        message({"step": 2}),
        3,
        "malformed",
        "plain JSON: not protected, anyone can read it and change it",
    ),
    "longer than the cap": Way("sb1." + "A" * 70_000, 3, "too_large", "the cap is 65536"),
    "state that nobody sealed": Way(
        message(base64.b64encode(b'{"step": "confirm"}').decode()),
        3,
        "malformed",
        "base64 of JSON: not protected, anyone can read it and change it",
    ),
    "a JWT in its place": Way(
        message("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLW9mLTMyLWJ5dGVz"),
        3,
        "malformed",
        "this is what looks like a JWT",
    ),
    "a replica without statebox": Way(
        message("v1." + base64.urlsafe_b64encode(bytes(90)).decode()),
        3,
        "malformed",
        "the MCP Python SDK's built-in codec (or the Ruby SDK's), not of statebox",
    ),
    "a key this ring never had": Way(
        Maker("2025-x", "A256GCM", secret("x")).token(payload_of()),
        5,
        "unknown_key",
        "the token names 2025-x; this ring has 2026-next, 2026-a, 2026-sign, 2026-old and 2 more",
    ),
    "a key only another ring has": Way(
        maker("2026-gone").token(payload_of()),
        5,
        "unknown_key",
        "the second ring has key 2026-gone, the first has not",
        second_ring=OTHER_RING,
    ),
    "a kid of another algorithm": Way(
        Maker("2026-sign", "A256GCM", secret("x")).token(payload_of()),
        5,
        "unknown_key",
        "the token names 2026-sign as A256GCM, the ring has it as HS256",
    ),
    "a revoked key": Way(
        token("2026-leak"), 5, "revoked_key", "2026-leak was revoked 2026-09-21 12:13:20Z, 2 h ago"
    ),
    "an expired key": Way(token("2026-dead"), 5, "expired_key", "2026-dead expired 2026-09-20"),
    "a changed token": Way(
        GOOD[:100] + ("A" if GOOD[100] != "A" else "B") + GOOD[101:],
        4,
        "authentication",
        "the token was changed, or sealed with another secret under the kid 2026-a",
    ),
    "a changed token, and the rings agree": Way(
        GOOD[:100] + ("A" if GOOD[100] != "A" else "B") + GOOD[101:],
        4,
        "authentication",
        "the rings agree on 2026-a: the token was changed",
        second_ring=RING,
    ),
    "one kid with two secrets": Way(
        OTHER_SECRET,
        4,
        "authentication",
        "key 2026-a has one secret in the first ring and another in the second",
        second_ring=ANOTHER_SECRET_RING,
    ),
    "a kid renamed by hand": Way(
        RENAMED, 4, "authentication", "sealed with the secret that this ring calls 2026-old"
    ),
    "another service's token": Way(
        bound_token(aud="refunds"), 7, "audience", 'sealed for "refunds", this is "billing"'
    ),
    "an expired token": Way(
        bound_token(iat=NOW - 900, exp=NOW - 300),
        6,
        "expired",
        "expired 2026-09-21 14:08:20Z, 5 min ago; it lived 10 min",
    ),
    "a clock that runs ahead": Way(
        bound_token(iat=NOW + 90), 6, "issued_in_future", "90 s ahead; the leeway is 60 s"
    ),
    "a flow that is over": Way(
        # No token that statebox seals outlives its flow, so its exp decides first.
        bound_token(iat=NOW - 3700, exp=NOW - 100, deadline=NOW - 100),
        6,
        "expired",
        "1 min 40 s ago",
    ),
    "a flow without end": Way(
        bound_token(round=33), 6, "too_many_rounds", "round 33, the cap is 32"
    ),
    "another user": Way(GOOD, 7, "principal", "bound to another principal", AS_BOB),
    "a user who is logged out": Way(
        GOOD, 7, "principal", "bound to a principal, presented by nobody", ("--no-principal",)
    ),
    "a user who has logged in": Way(
        bound_token(principal=None), 7, "principal", "bound to nobody, presented by somebody"
    ),
    "an identity in another order": Way(
        bound_token(principal=("app", "iss", "alice")),
        7,
        "principal",
        "bound to the same parts in another order",
        LONG_ID,
    ),
    "another tool": Way(
        json.dumps(call(name="wire_money", requestState=GOOD)),
        7,
        "request",
        "bound to tools/call refund, presented with tools/call wire_money",
    ),
    "other arguments": Way(
        json.dumps(call(arguments={"order": "ORD-7002", "cents": 1500}, requestState=GOOD)),
        7,
        "request",
        "the arguments differ; method and target are the same, tools/call refund",
    ),
    "a null that was absent": Way(
        json.dumps(
            call(arguments={**CALL["params"]["arguments"], "note": None}, requestState=GOOD)
        ),
        7,
        "request",
        "the arguments differ by members that are null, and were absent before",
    ),
    "arguments for none": Way(
        json.dumps(call(requestState=NO_ARGUMENTS)),
        7,
        "request",
        "sealed for a call without arguments, presented with some",
    ),
    "none for arguments": Way(
        json.dumps(call(arguments={}, requestState=GOOD)),
        7,
        "request",
        "the arguments differ; method and target are the same, tools/call refund",
    ),
    "no request": Way(
        GOOD, 7, "request", "bound to tools/call refund, presented with none", ("--no-request",)
    ),
    "a request for none": Way(
        message(token()), 7, "request", "bound to no request, presented with tools/call refund"
    ),
    "a payload of another kind": Way(
        maker("2026-a").token(b"\xa0"),
        3,
        "malformed",
        "authentic, but not of the one allowed shape",
    ),
    "the SDK's claims, expired": Way(
        codec_token(exp=NOW - 5), 6, "expired", "expired 2026-09-21 14:13:15Z, 5 s ago"
    ),
    "the SDK's claims, other arguments": Way(
        message(codec_token()), 7, "request", "the arguments differ; method and target are the same"
    ),
    "the SDK's claims, another service": Way(
        codec_token(aud="refunds"), 7, "audience", 'sealed for "refunds", this is "billing"'
    ),
}


def inspect(way: Way, folder: Path, *options: str) -> Ran:
    rings = [ring_file(folder)]
    if way.second_ring is not None:
        rings.append(ring_file(folder, way.second_ring, "second.json"))
    given = [word for ring in rings for word in ("--keyring", ring)]
    return run("inspect", "-", *given, *way.options, "--at", SECOND, *options, stdin=way.text)


def test_there_are_thirty_ways_and_more() -> None:
    assert len(WAYS) >= 30


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_the_reason_is_given_with_its_code_and_its_exit_code(way: Way, tmp_path: Path) -> None:
    ran = inspect(way, tmp_path, "--json")
    told = ran.json
    assert (ran.code, told["error"]["code"]) == (way.code, way.error)
    assert told["verified"] is False
    assert way.sentence in told["error"]["message"]
    failed = [check for check in told["checks"] if check["status"] == "fail"]
    assert failed[0]["detail"] == told["error"]["message"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_person_reads_why_and_what_next_in_the_last_sentence(way: Way, tmp_path: Path) -> None:
    ran = inspect(way, tmp_path)
    lines = ran.out.splitlines()
    last = " ".join(ran.out.rstrip("\n").rpartition("\n\n")[2].split())
    assert ran.code == way.code
    assert last.startswith(f"Rejected ({way.error}): ")
    assert way.sentence in last
    assert "; " in last
    assert last.endswith(".")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 26


def test_the_ring_that_has_the_key_is_named_by_its_place(tmp_path: Path) -> None:
    rings = (RING, ANOTHER_SECRET_RING, OTHER_RING)
    paths = [ring_file(tmp_path, ring, f"{place}.json") for place, ring in enumerate(rings)]
    given = [word for path in paths for word in ("--keyring", path)]
    ran = run("inspect", maker("2026-gone").token(payload_of()), "--json", *given)
    assert ran.json["error"]["message"] == "the third ring has key 2026-gone, the first has not"


def test_what_holds_is_accepted_and_the_rest_is_said(tmp_path: Path) -> None:
    way = Way(message(GOOD), 0, "", "")
    ran = inspect(way, tmp_path, "--json")
    assert (ran.code, ran.json["error"], ran.json["verified"]) == (0, None, True)
    assert {check["status"] for check in ran.json["checks"][:-1]} == {"pass"}
    assert inspect(way, tmp_path).out.endswith("\nAccepted: every check that was made holds.\n")
    half = inspect(way._replace(options=()), tmp_path).out
    assert "holds; for the rest give --audience, --principal." in " ".join(half.split())


def test_a_token_of_a_pending_key_opens_and_the_clock_is_mentioned(tmp_path: Path) -> None:
    ran = inspect(Way(token("2026-next"), 0, "", ""), tmp_path, "--json")
    assert ran.code == 0
    assert ran.json["key"]["role"] == "pending"
    (detail,) = [check["detail"] for check in ran.json["checks"] if check["name"] == "key"]
    assert detail == (
        "2026-next is pending and seals from 2026-09-21 14:23:20Z, in 10 min: sealed by a clock ahead"
    )

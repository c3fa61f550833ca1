"""The SDK's own client and two server processes: what one sealed the other opens, and nothing else."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from statebox import Keyring, Request, Statebox
from statebox.mcp import StateboxCodec
from tests.mcp import client
from tests.mcp.client import ORDER
from tests.mcp.replicas import Caller, Replica

KINDS = ("codec", "protected", "fastmcp", "lowlevel")
SDK_BOUNDARY = ("codec", "fastmcp")
ALICE = ("https://login.example", "alice", "app")

every_kind = pytest.mark.parametrize("kind", KINDS)
Replicas = tuple[Replica, Replica]


async def refused(
    caller: Caller, replica: Replica, state: str, arguments: Mapping[str, object] = ORDER
) -> str:
    """Present a state that must be refused; give the reason that the server logged."""
    before = len(replica.logged())
    assert client.refused(await caller.call(replica, state, arguments=arguments, name="Alice"))
    (line,) = replica.logged()[before:]
    assert state not in line
    assert "ORD-7001" not in line
    assert "alice" not in line
    if caller.kind in SDK_BOUNDARY:
        start = "mcp.server.request_state WARNING requestState rejected on tools/call: "
    else:
        start = "statebox.mcp WARNING requestState refused on tools/call: "
    assert line.startswith(start)
    return line.removeprefix(start).partition(": ")[0]


@every_kind
@pytest.mark.parametrize("alg", ["A256GCM", "HS256"])
async def test_a_flow_of_three_rounds_goes_back_and_forth_between_two_processes(
    replicas: Replicas, kind: str, alg: str
) -> None:
    here, there = replicas
    caller = Caller(kind, alg)
    asked_name = await caller.asked(here)
    asked_yes = await caller.asked(there, asked_name, name="Alice")
    done = await caller.call(here, asked_yes, yes="yes")
    assert client.text_of(done) == "refunded ORD-7001 to Alice"


@every_kind
async def test_a_state_with_one_changed_character_is_refused(replicas: Replicas, kind: str) -> None:
    here, there = replicas
    caller = Caller(kind)
    state = await caller.asked(here)
    changed = state[:-20] + ("A" if state[-20] != "A" else "B") + state[-19:]
    assert await refused(caller, there, changed) == "authentication"


@every_kind
async def test_a_state_of_one_user_is_refused_to_another_of_the_same_client(
    replicas: Replicas, kind: str
) -> None:
    here, there = replicas
    state = await Caller(kind).asked(here)
    assert await refused(Caller(kind, user="bob"), there, state) == "principal"


@every_kind
async def test_a_state_of_one_order_is_refused_for_another(replicas: Replicas, kind: str) -> None:
    here, there = replicas
    caller = Caller(kind)
    state = await caller.asked(here)
    reason = await refused(caller, there, state, arguments={"order": "ORD-9999"})
    assert reason == ("request binding" if kind in SDK_BOUNDARY else "request")


@every_kind
async def test_a_state_of_another_ring_is_refused(replicas: Replicas, kind: str) -> None:
    here, there = replicas
    state = await Caller(kind, "HS256").asked(here)
    assert await refused(Caller(kind, "A256GCM"), there, state) == "unknown_key"


@every_kind
async def test_an_expired_state_is_refused(
    replicas: Replicas, ring_files: dict[str, Path], kind: str
) -> None:
    ring = Keyring.load(ring_files["A256GCM"])
    long_ago = time.time() - 1200
    if kind in SDK_BOUNDARY:
        claims = {"v": 1, "iat": long_ago, "exp": long_ago + 600, "m": "tools/call", "t": "refund"}
        state = StateboxCodec(ring).seal(json.dumps(claims | {"a": "", "s": "{}"}).encode())
    else:
        # The ring was made a moment ago, so it had no active key then: only its date is changed.
        (key,) = ring
        earlier = Keyring([key.replace(nbf=int(long_ago))])
        box = Statebox(earlier, audience="billing", clock=lambda: long_ago)
        state = box.seal("{}", principal=ALICE, request=Request("tools/call", "refund", ORDER))
    assert await refused(Caller(kind), replicas[0], state) == "expired"


@pytest.mark.parametrize(
    ("sealed_by", "presented_to"), [("codec", "protected"), ("lowlevel", "fastmcp")]
)
async def test_a_state_of_the_codec_and_one_of_the_boundary_do_not_open_as_each_other(
    replicas: Replicas, sealed_by: str, presented_to: str
) -> None:
    here, there = replicas
    state = await Caller(sealed_by).asked(here)
    assert await refused(Caller(presented_to), there, state) == "malformed"


@every_kind
async def test_text_that_is_no_token_is_refused(replicas: Replicas, kind: str) -> None:
    assert await refused(Caller(kind), replicas[0], "%%% of no form") == "malformed"

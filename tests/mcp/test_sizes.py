"""How long a token is beside the SDK's built-in one, for the same state and the same bindings."""

import json

import pytest
from mcp.server.mcpserver import AESGCMRequestStateCodec
from mcp.server.request_state import compact_json

from statebox import Keyring, Request, Statebox
from statebox.keys import ALGORITHMS
from statebox.mcp import StateboxCodec
from statebox.state import State

# 90 bytes of the JSON text that a handler, or the SDK's own resolver, makes its state of.
STATE: State = {
    "step": "confirm",
    "order": "ORD-7001",
    "cents": 1500,
    "currency": "EUR",
    "reason": "damaged box",
}
TEXT = compact_json(STATE)
CALL = Request("tools/call", "refund", {"order": "ORD-7001", "cents": 1500})
ALICE = ["https://login.example", "alice", "app"]

# What the SDK's boundary gives its codec for this state, with audience and principal bound.
CLAIMS = compact_json(
    {
        "v": 1,
        "iat": 1790000000.1234567,
        "exp": 1790000600.1234567,
        "m": "tools/call",
        "t": "refund",
        "a": "AAECAwQFBgcICQoLDA0ODw",
        "s": TEXT,
        "aud": "billing",
        "p": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
    }
).encode()


@pytest.fixture
def built_in() -> int:
    return len(AESGCMRequestStateCodec([bytes(32)]).seal(CLAIMS))


def sealed(ring: Keyring, state: State) -> int:
    return len(Statebox(ring, audience="billing").seal(state, principal=ALICE, request=CALL))


def test_the_state_is_what_is_compared() -> None:
    assert len(TEXT.encode()) == 90
    assert json.loads(TEXT) == STATE


both_modes = pytest.mark.parametrize("alg", ALGORITHMS)


@both_modes
def test_a_text_state_takes_at_most_72_percent_of_the_sdks_token(built_in: int, alg: str) -> None:
    assert sealed(Keyring.generate(alg), TEXT) <= 0.72 * built_in


@both_modes
def test_a_text_state_takes_at_most_72_percent_through_the_codec_too(
    built_in: int, alg: str
) -> None:
    assert len(StateboxCodec(Keyring.generate(alg)).seal(CLAIMS)) <= 0.72 * built_in


@both_modes
def test_a_state_that_is_a_map_takes_at_most_65_percent(built_in: int, alg: str) -> None:
    assert sealed(Keyring.generate(alg), STATE) <= 0.65 * built_in

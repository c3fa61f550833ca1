"""What type checkers see of the public names. Checked by mypy and pyright, never run.

Each `type: ignore` is a claim that the line is refused: an ignore without need is an error itself.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

from statebox import (
    ClaimError,
    Continuation,
    Key,
    Keyring,
    OpenError,
    Request,
    Statebox,
    StateboxError,
)


def rings(path: str | os.PathLike[str], now: float) -> Keyring:
    assert_type(Keyring.generate(), Keyring)
    assert_type(Keyring.generate("HS256"), Keyring)
    assert_type(Keyring.load("keyring.json"), Keyring)
    assert_type(Keyring.load(Path("keyring.json")), Keyring)
    ring = Keyring.load(path)
    assert_type(Keyring.from_jwks(ring.to_jwks()), Keyring)
    assert_type(ring.to_jwks(), dict[str, Any])
    assert_type(ring.active(now), Key)
    assert_type(ring.get("2026-01"), Key | None)
    assert_type([key.kid for key in ring], list[str])
    assert_type(len(ring), int)
    return ring


def requests(params: Mapping[str, Any]) -> Request:
    assert_type(Request("tools/call", "refund"), Request)
    assert_type(Request("tools/call", "refund", {"order": "ORD-7001"}), Request)
    return Request.from_params("tools/call", params)


def a_flow(ring: Keyring, request: Request, parts: Sequence[str]) -> str:
    box = Statebox(ring, audience="billing", ttl=600)
    assert_type(Statebox.from_source("file:keyring.json", audience="billing", ttl=600), Statebox)
    state: dict[str | int, Any] = {"step": "confirm", 7: [1, 2.5, None, b""]}
    token = box.seal(state, principal=parts, request=request)
    assert_type(token, str)
    turn = box.open(token, principal="alice", request=None)
    assert_type(turn, Continuation)
    assert_type((turn.flow, turn.round, turn.key_id), tuple[str, int, str])
    assert_type((turn.issued_at, turn.expires_at, turn.deadline), tuple[int, int, int])
    assert_type((turn.token_id, turn.audience), tuple[str, str])
    turn.round = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    counts: dict[str, int] = {"asked": turn.state["asked"] + 1}
    box.seal(counts, principal="alice", request=request)
    box.seal(list(counts), principal="alice", request=request)
    return box.seal(turn.state | {"ok": True}, principal="alice", request=request, after=turn)


def binding_to_nobody_is_written_down(box: Statebox) -> None:
    box.seal(None, request=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    box.open("sb1.", principal=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def a_set_is_no_state(box: Statebox) -> None:
    box.seal({"a", "b"}, principal=None, request=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def what_an_error_says(box: Statebox, token: str) -> tuple[str, str, str]:
    try:
        box.open(token, principal=None, request=None)
    except ClaimError as error:
        assert_type(error.token_id, str | None)
        return error.code, error.message, error.hint
    except OpenError as error:
        assert_type(error.key_id, str | None)
        return error.code, error.message, error.hint
    except StateboxError as error:
        return error.code, error.message, error.hint
    return "", "", ""

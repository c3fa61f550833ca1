"""Tokens that are the same in every run: fixed secrets, a fixed iv, a clock that stands still."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from statebox import Keyring, Request
from statebox.bindings import Principal, principal_mac, principal_tag
from statebox.keys import Revocation
from tests.cli.terminal import secret_file
from tests.samples import DAY, NOW, key, maker
from tests.vectors.forge import payload_of
from tests.vectors.plain_cbor import Raw

SECOND: Final = str(NOW)
"""The time as an option: `--at SECOND` is one minute after the tokens were issued."""

ARGUMENTS: Final = {"order": "ORD-7001", "cents": 1500}
CALL: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "refund", "arguments": ARGUMENTS},
}

RING: Final = Keyring(
    [
        key("2026-a"),
        key("2026-old", nbf=NOW - 9 * DAY, exp=NOW + DAY),
        key("2026-dead", nbf=NOW - 30 * DAY, exp=NOW - DAY),
        key("2026-leak", nbf=NOW - 20 * DAY, revoked=Revocation(NOW - 7200, "laptop stolen")),
        key("2026-next", nbf=NOW + 600),
        key("2026-sign", "HS256", nbf=NOW - 8 * DAY),
    ]
)


def ring_file(folder: Path, ring: Keyring = RING, name: str = "ring.json") -> str:
    """Write a ring where only its owner may read it."""
    return str(secret_file(folder, name, ring.to_json()))


def token(
    kid: str = "2026-a",
    *,
    principal: Principal | None = "alice",
    request: Request | None = None,
    **claims: object,
) -> str:
    """Make a token of the flow that every test tells of: issued a minute ago, for ten."""
    alg = "HS256" if kid == "2026-sign" else "A256GCM"
    tag = None if principal is None else principal_tag(principal_mac(key(kid, alg)), principal)
    given: dict[str, object] = {
        "iat": NOW - 60,
        "exp": NOW + 540,
        "deadline": NOW + 3540,
        "flow": bytes.fromhex("4a146cf0d98a98e1"),
        "principal": tag,
        "request": None if request is None else Raw(request.cbor),
    }
    return maker(kid, alg).token(payload_of(**(given | claims)))


def bound_token(
    kid: str = "2026-a", *, principal: Principal | None = "alice", **claims: object
) -> str:
    """Make a token that is bound to alice, or to another principal, and to CALL."""
    request = Request.from_params(CALL["method"], CALL["params"])
    return token(kid, principal=principal, request=request, **claims)


def message(state: object, call: dict[str, Any] | None = None) -> str:
    """Write the JSON-RPC request that presents a token."""
    call = CALL if call is None else call
    return json.dumps({**call, "params": {**call["params"], "requestState": state}})

"""The claims of the MCP Python SDK, judged as the SDK judges them.

They come in two ways: in a token of statebox's codec, as a compact map (format, section 4), and in
the SDK's own tokens, as JSON. The order of the checks is the SDK's, and so are the bindings.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, cast

from statebox.bindings import METHODS
from statebox.state import State, decode_state
from statebox_cli import comparing
from statebox_cli.find import Call
from statebox_cli.judging import Check, Context, Verdict, skipped_after

_CONTINUATION: Final = -65538
_AS_THEY_CAME: Final = -65539
_METHOD_NAMES: Final = {number: name for name, number in METHODS.items()}
_PRINCIPAL_LABEL: Final = b"mcp/request-state/principal:"


class SdkClaims(NamedTuple):
    """The SDK's claims, of the types that the SDK asks for.

    Attributes:
        issued_at: Seconds since 1970.
        expires_at: Seconds since 1970.
        method: The JSON-RPC method.
        target: The name of a tool or prompt, or the uri of a resource.
        digest: 16 bytes of SHA-256 over the arguments.
        audience: The service, or None.
        principal: 8 bytes of salt and 16 of hash, or None.
        state: The state, which to the SDK is text.
    """

    issued_at: float
    expires_at: float
    method: str
    target: str
    digest: bytes
    audience: str | None
    principal: bytes | None
    state: str


def read(payload: bytes, parse: Callable[[bytes], State] = decode_state) -> SdkClaims | None:
    """Read the payload of a codec's token; None if it is not one.

    Args:
        payload: The bytes.
        parse: What reads CBOR; for bytes that nobody authenticated, a bounded parser.
    """
    try:
        state = parse(payload)
        if not isinstance(state, dict):
            return None
        members = cast("dict[Any, Any]", state)
        if _AS_THEY_CAME in members:
            return read_json(members[_AS_THEY_CAME])
        method, target, digest, principal, text = members[_CONTINUATION]
        claims = (members[6], members[4], _METHOD_NAMES.get(method, method), target, digest)
        return _typed(*claims, members.get(3), principal, text)
    except (ValueError, KeyError, TypeError):
        return None


def read_json(payload: bytes) -> SdkClaims | None:
    """Read the payload of the SDK's own token; None if it is not of the SDK's shape.

    Args:
        payload: Authenticated bytes.
    """
    try:
        claims: Any = json.loads(payload)
        if claims["v"] != 1:
            return None
        digest, principal = _bytes(claims["a"]), claims.get("p")
        return _typed(
            claims["iat"],
            claims["exp"],
            claims["m"],
            claims["t"],
            digest,
            claims.get("aud"),
            None if principal is None else _bytes(principal),
            claims["s"],
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _typed(*values: Any) -> SdkClaims:  # noqa: ANN401 - it is what checks the types
    kinds = (int | float, int | float, str, str, bytes, str | None, bytes | None, str)
    if not all(isinstance(value, kind) for value, kind in zip(values, kinds, strict=True)):
        raise ValueError("a claim of another type")
    if not (math.isfinite(values[0]) and math.isfinite(values[1])):
        raise ValueError("a time that is not finite")
    return SdkClaims(*values)


def judge(
    claims: SdkClaims, checks: list[Check], key: dict[str, Any] | None, context: Context
) -> Verdict:
    """Make the SDK's checks, in the SDK's order.

    Args:
        claims: The authenticated claims.
        checks: Those made before.
        key: What is known of the key.
        context: What to check against.
    """

    def same_request(call: Call) -> bool:
        return (call.method, comparing.target_of(call), _digest(call)) == (
            claims.method,
            claims.target,
            claims.digest,
        )

    def same_principal(parts: tuple[str, ...]) -> bool:
        return any(_tag_matches(claims.principal or b"", name) for name in _names(parts))

    checks += [
        Check("payload", "pass", "the claims of the MCP SDK, which checks them itself"),
        comparing.issued(claims.issued_at, context),
        comparing.expiry(claims.expires_at, claims.issued_at, context.now),
        comparing.request((claims.method, claims.target), same_request, context),
        comparing.audience(claims.audience, context),
        comparing.principal(same_principal, context, bound=claims.principal is not None),
    ]
    return Verdict(
        checks=skipped_after(checks, "the SDK has no such check"),
        key=key,
        claims=describe(claims),
        state=claims.state,
        has_state=True,
    )


def describe(claims: SdkClaims) -> dict[str, Any]:
    """Give what a token claims, for JSON; of a principal only whether there is one."""
    return {
        "audience": claims.audience,
        "issued_at": claims.issued_at,
        "expires_at": claims.expires_at,
        "principal_bound": claims.principal is not None,
        "request": {"method": claims.method, "target": claims.target},
        "state_bytes": len(claims.state.encode("utf-8", "surrogatepass")),
    }


def _names(parts: tuple[str, ...]) -> Iterator[str]:
    # The SDK binds to one text: a callable's own, or the JSON of an identity's parts. statebox
    # writes those as issuer, subject, client; the SDK as client, issuer, subject, null for absent.
    if len(parts) == 1:
        yield parts[0]
    yield _compact(parts)
    for order in (
        itertools.permutations([part or None for part in parts]) if len(parts) == 3 else ()
    ):
        yield _compact(order)


def _tag_matches(claim: bytes, name: str) -> bool:
    salt, tag = claim[:8], claim[8:]
    data = _PRINCIPAL_LABEL + salt + name.encode("utf-8", "surrogatepass")
    return hmac.compare_digest(tag, hashlib.sha256(data).digest()[:16])


def _digest(call: Call) -> bytes:
    arguments: object = call.params.get("arguments") or {}
    if call.method == "resources/read":
        arguments = {}
    return hashlib.sha256(_compact(arguments, sort_keys=True).encode()).digest()[:16]


def _compact(value: object, *, sort_keys: bool = False) -> str:
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"))


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("not text")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

"""From an authenticated payload to a continuation: steps 6 to 11 of the format's section 6, in order.

Steps 1 to 5 are `Sealer.open`. No other room knows the order.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import NoReturn

from statebox.bindings import Principal, Request
from statebox.claims import EXPIRES_AT, FLOW, ISSUED_AT, ROUND, Fields, Layout, token_id
from statebox.continuation import Continuation
from statebox.errors import (
    AudienceError,
    ClaimError,
    ExpiredFlowError,
    ExpiredTokenError,
    FutureTokenError,
    MalformedTokenError,
    PrincipalError,
    RequestError,
    SealError,
    TooManyRoundsError,
)
from statebox.sealer import Opened
from statebox.state import decode_state


def check(
    opened: Opened,
    now: float,
    layout: Layout,
    leeway: int,
    max_rounds: int,
    principal: Principal | None,
    request: Request | None,
) -> Continuation:
    """Check everything that an authenticated payload claims.

    Args:
        opened: The payload, with the key that sealed it.
        now: Seconds since 1970.
        layout: How payloads of this service lie.
        leeway: How far iat may lie ahead, in seconds.
        max_rounds: How many rounds a flow may have.
        principal: Who presents the token; None: nobody known.
        request: The request it came with; None: none.

    Returns:
        The continuation.

    Raises:
        MalformedTokenError, ClaimError: The first check that failed.
        TypeError: The principal or the request is of no such kind.
    """
    payload, slot, message = opened
    bound_to = None if request is None else request_cbor(request)
    # 6: the shape, the state included, so that a token is never half trusted.
    try:
        fields, sealed_for, sealed_with, raw = layout.decode(payload, bound_to)
        audience, expires_at, issued_at, _, round_, deadline = fields
        state = decode_state(raw)
    except Exception as fault:  # noqa: BLE001 - deny on error, and name what should not occur
        what = "is not of the one allowed shape"
        if not isinstance(fault, ValueError):
            what = f"made its decoder raise {type(fault).__name__}"
        error = MalformedTokenError(f"the payload {what}", key_id=slot.key.kid)
        error.token_id = token_id(message)
        raise error from None
    # 7
    if audience != layout.audience:
        _refuse(AudienceError("sealed for another audience"), fields, opened)
    # 8. INVARIANT: said as what has to hold, so that a clock that gives NaN opens nothing.
    if not issued_at <= now + leeway:
        ahead = f"{issued_at - now:.0f}"  # which also writes what is not finite
        _refuse(FutureTokenError(f"issued {ahead} s ahead of this clock"), fields, opened)
    if not now < expires_at:
        _refuse(ExpiredTokenError(f"expired {now - expires_at:.0f} s ago"), fields, opened)
    if not now < deadline:
        _refuse(ExpiredFlowError(f"the flow ended {now - deadline:.0f} s ago"), fields, opened)
    # 9
    if round_ > max_rounds:
        _refuse(TooManyRoundsError(f"round {round_} of a flow"), fields, opened)
    # 10
    presented = None if principal is None else slot.principal_tag(principal)
    if sealed_for is not presented and not _same(sealed_for, presented):
        _refuse(PrincipalError(_drift("principal", sealed_for, presented)), fields, opened)
    # 11
    if sealed_with is not bound_to and not _same(sealed_with, bound_to):
        _refuse(RequestError(_drift("request", sealed_with, bound_to)), fields, opened)
    return Continuation(state, fields, slot.key.kid, message)


def require_open_flow(round_: int, deadline: int, now: float, max_rounds: int) -> None:
    """Check that a flow has a round left to seal, as opening would check it.

    Raises:
        SealError: `too_many_rounds` or `flow_expired`.
    """
    if round_ > max_rounds:
        raise SealError(
            "too_many_rounds",
            f"this would be round {round_} of a flow, the cap is {max_rounds}",
            hint="Look for a handler that asks without end, or raise max_rounds.",
        )
    if now >= deadline:
        raise SealError(
            "flow_expired",
            f"the flow ended {int(now - deadline)} s ago",
            hint="Start the flow again, or raise max_flow_age.",
        )


def request_cbor(request: Request) -> bytes:
    """Give what a token is bound to.

    Raises:
        TypeError: It is no Request.
    """
    if type(request) is not Request:
        raise TypeError("request is a statebox.Request, or None")
    return request.cbor


# INVARIANT: compared in constant time, as bytes.
def _same(sealed: bytes | None, presented: bytes | None) -> bool:
    if sealed is None or presented is None:
        return False
    return compare_digest(sealed, presented)


def _drift(what: str, sealed: bytes | None, presented: bytes | None) -> str:
    if sealed is None:
        return f"bound to no {what}, and one was presented"
    if presented is None:
        return f"bound to a {what}, and none was presented"
    return f"bound to another {what}"


def _refuse(error: ClaimError, fields: Fields, opened: Opened) -> NoReturn:
    error.key_id = opened[1].key.kid
    error.token_id = token_id(opened[2])
    error.flow = fields[FLOW].hex()
    error.round = fields[ROUND]
    error.issued_at = fields[ISSUED_AT]
    error.expires_at = fields[EXPIRES_AT]
    raise error

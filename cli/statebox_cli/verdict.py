"""Every check of the format's section 6 on one token, each with both sides of what did not match.

The library stops at the first check that fails; a person wants to see the others too. That the
first one here is the error that `Statebox.open` raises is a test, over all vectors.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any, Final

from statebox.bindings import METHODS, Request, principal_mac, principal_tag
from statebox.cbor import read_head
from statebox.claims import Claims, decode_payload
from statebox.envelope import protected_header
from statebox.keyring import Keyring
from statebox.keys import Key
from statebox.state import decode_state
from statebox_cli import comparing, near, sdk_claims
from statebox_cli.anatomy import Anatomy, Header, take_apart
from statebox_cli.find import Call
from statebox_cli.judging import Check, Context, Verdict, skipped_after
from statebox_cli.output import printable
from statebox_cli.times import absolute, both

_METHOD_NAMES: Final = {number: name for name, number in METHODS.items()}


def judge(token: str, rings: Sequence[Keyring], context: Context) -> Verdict:
    """Make every check that can be made.

    Args:
        token: Any text.
        rings: The server's ring; after it, others to compare it with.
        context: What to check against.

    Returns:
        All checks in their order; the claims and the state only of an authentic token.
    """
    anatomy = take_apart(token)
    checks = without_key(token, anatomy, context)
    if checks[-1].status == "fail":
        return Verdict(checks=skipped_after(checks, "the token could not be read so far"))
    header = _ring_header(anatomy, rings[0])
    if header is None:
        found = near.unknown_key(anatomy.header, rings)
        checks.append(Check("key", "fail", found.message, "unknown_key", found.hint))
        return Verdict(checks=skipped_after(checks, "there is no key to check with"))
    if (anatomy.alg == "A256GCM") != (header.alg == "A256GCM"):
        detail = f"a message of {anatomy.alg} under a header of {header.alg}"
        checks[-1] = Check("frame", "fail", detail, "malformed")
        return Verdict(checks=skipped_after(checks, "the token could not be read so far"))
    return _with_key(token, header, rings, checks, context)


def without_key(token: str, anatomy: Anatomy, context: Context) -> list[Check]:
    """Make the checks that need no key: length, text form, frame; stop at the first that fails.

    Args:
        token: Any text.
        anatomy: Its parts.
        context: For the cap.
    """
    cap = context.max_token_chars
    if len(token) > cap:
        return [Check("length", "fail", f"{len(token)} characters, the cap is {cap}", "too_large")]
    checks = [Check("length", "pass", f"{len(token)} characters, the cap is {cap}")]
    cose = "COSE_Mac0" if anatomy.alg == "HS256" else "COSE_Encrypt0"
    for name, problem, fine in (
        ("text_form", anatomy.text_problem, "sb1. and canonical base64url"),
        ("frame", anatomy.frame_problem, f"{cose}, the one encoding of its parts"),
    ):
        if problem is not None:
            found = near.damaged(token) or near.Near(problem)
            checks.append(Check(name, "fail", found.message, "malformed", found.hint))
            break
        checks.append(Check(name, "pass", fine))
    return checks


def _ring_header(anatomy: Anatomy, ring: Keyring) -> Header | None:
    header = anatomy.header
    if anatomy.frame is None or header is None:
        return None
    key = ring.get(header.kid)
    if key is None or protected_header(key.kid, key.alg) != anatomy.frame.protected:
        return None
    return header


def _with_key(
    token: str,
    header: Header,
    rings: Sequence[Keyring],
    checks: list[Check],
    context: Context,
) -> Verdict:
    ring = rings[0]
    key = ring.get(header.kid)
    assert key is not None  # noqa: S101 - `_ring_header` found it
    facts = describe_key(ring, key, context.now)
    checks.append(_key_check(key, facts, context.now))
    payload = near.authenticate(token, key)
    if payload is None:
        found = near.unauthentic(token, header, key, rings)
        checks.append(Check("authentication", "fail", found.message, "authentication", found.hint))
        reason = "nothing of a token that is not authentic is looked at"
        return Verdict(checks=skipped_after(checks, reason), key=facts)
    trust = "the tag matches" if key.revoked is None else "the tag matches; a thief's would as well"
    checks.append(Check("authentication", "pass", trust))
    if context.codec and (sdk := sdk_claims.read(payload)) is not None:
        return sdk_claims.judge(sdk, checks, facts, context)
    try:
        claims = decode_payload(payload)
        state = decode_state(claims.state)
    except ValueError:
        detail = "authentic, but not of the one allowed shape"
        if sdk_claims.read(payload) is not None:
            detail = "the claims of the MCP SDK, as request_state_security() seals them"
        checks.append(Check("payload", "fail", detail, "malformed"))
        return Verdict(checks=skipped_after(checks, "there are no claims to check"), key=facts)
    checks += _native(claims, key, context)
    return Verdict(
        checks=tuple(checks), key=facts, claims=describe(claims), state=state, has_state=True
    )


def describe_key(ring: Keyring, key: Key, now: float) -> dict[str, Any]:
    """Give what may be known of a key, for JSON."""
    facts: dict[str, Any] = {
        "role": ring.role(key, now),
        "kid": key.kid,
        "alg": key.alg,
        "nbf": key.nbf,
        "exp": key.exp,
    }
    if key.revoked is not None:
        facts |= {"revoked_at": key.revoked.revoked_at, "reason": key.revoked.reason}
    return facts


def describe(claims: Claims) -> dict[str, Any]:
    """Give what a token claims, for JSON; of a principal only whether there is one."""
    request = claims.request
    return {
        "audience": claims.audience.decode(),
        "issued_at": claims.issued_at,
        "expires_at": claims.expires_at,
        "deadline": claims.deadline,
        "flow": claims.flow.hex(),
        "round": claims.round,
        "principal_bound": claims.principal is not None,
        "request": None
        if request is None
        else dict(zip(("method", "target"), named(request), strict=True)),
        "state_bytes": len(claims.state),
    }


def named(request: bytes) -> tuple[str, str]:
    """Read method and target from the CBOR of `[method, target, digest]` that was parsed before."""
    if request[1] in _METHOD_NAMES:
        method, at = _METHOD_NAMES[request[1]], 2
    else:
        length, at = read_head(request, 1, 0x60)
        method, at = request[at : at + length].decode(), at + length
    length, at = read_head(request, at, 0x60)
    return method, request[at : at + length].decode()


def _key_check(key: Key, facts: dict[str, Any], now: float) -> Check:
    role = facts["role"]
    if key.revoked is not None:
        reason = f": {printable(key.revoked.reason)}" if key.revoked.reason else ""
        detail = f"{key.kid} was revoked {both(key.revoked.revoked_at, now)}{reason}"
        return Check("key", "fail", detail, "revoked_key")
    if role == "expired" and key.exp is not None:
        return Check("key", "fail", f"{key.kid} expired {both(key.exp, now)}", "expired_key")
    if role == "pending":
        detail = (
            f"{key.kid} is pending and seals from {both(key.nbf, now)}: sealed by a clock ahead"
        )
        return Check("key", "pass", detail)
    until = "" if key.exp is None else f", opens until {absolute(key.exp)}"
    return Check("key", "pass", f"{key.kid} is {role}{until}")


def _native(claims: Claims, key: Key, context: Context) -> list[Check]:
    now = context.now
    return [
        Check("payload", "pass", f"round {claims.round} of flow {claims.flow.hex()}"),
        comparing.audience(claims.audience.decode(), context),
        comparing.issued(claims.issued_at, context),
        comparing.expiry(claims.expires_at, claims.issued_at, now),
        _deadline_check(claims, now),
        _rounds_check(claims.round, context.max_rounds),
        _principal_check(claims.principal, key, context),
        _request_check(claims.request, context),
        Check("single_use", "skipped", "only the server's guard knows"),
    ]


def _deadline_check(claims: Claims, now: float) -> Check:
    if now < claims.deadline:
        return Check("flow", "pass", f"ends {both(claims.deadline, now)}")
    return Check("flow", "fail", f"the flow ended {both(claims.deadline, now)}", "flow_expired")


def _rounds_check(round_: int, most: int) -> Check:
    if round_ <= most:
        return Check("rounds", "pass", f"round {round_}, the cap is {most}")
    return Check("rounds", "fail", f"round {round_}, the cap is {most}", "too_many_rounds")


def _principal_check(sealed: bytes | None, key: Key, context: Context) -> Check:
    mac = principal_mac(key)

    def matches(parts: tuple[str, ...]) -> bool:
        return sealed is not None and hmac.compare_digest(sealed, principal_tag(mac, parts))

    return comparing.principal(matches, context, bound=sealed is not None)


def _request_check(sealed: bytes | None, context: Context) -> Check:
    def matches(call: Call) -> bool:
        return Request.from_params(call.method, call.params).cbor == sealed

    return comparing.request(None if sealed is None else named(sealed), matches, context)

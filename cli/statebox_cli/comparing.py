"""The checks of claims that statebox's tokens and those of the SDKs have in common."""

from __future__ import annotations

import math
from collections.abc import Callable

from statebox_cli import near
from statebox_cli.find import Call
from statebox_cli.judging import Check, Context
from statebox_cli.output import printable
from statebox_cli.times import absolute, both, span


def audience(sealed_for: str | None, context: Context) -> Check:
    """Compare the audience of a token with that of the service."""
    sealed = "no audience" if sealed_for is None else f'"{printable(sealed_for)}"'
    if context.audience is None:
        return not_compared("audience", f"sealed for {sealed}")
    if sealed_for == context.audience:
        return Check("audience", "pass", sealed)
    detail = f'sealed for {sealed}, this is "{printable(context.audience)}"'
    return Check("audience", "fail", detail, "audience")


def issued(issued_at: float, context: Context) -> Check:
    """Compare iat with the clock."""
    if issued_at <= context.now + context.leeway:
        return Check("issued", "pass", both(issued_at, context.now))
    ahead = math.ceil(issued_at - context.now)
    detail = f"issued {absolute(issued_at)}, {ahead} s ahead; the leeway is {context.leeway} s"
    return Check("issued", "fail", detail, "issued_in_future")


def expiry(
    expires_at: float, issued_at: float | None, now: float, *, inclusive: bool = False
) -> Check:
    """Compare exp with the clock; some SDKs still open a token at its exp, *inclusive*."""
    if now < expires_at or (inclusive and now == expires_at):
        return Check("expiry", "pass", both(expires_at, now))
    lived = "" if issued_at is None else f"; it lived {span(expires_at - issued_at)}"
    return Check("expiry", "fail", f"expired {both(expires_at, now)}{lived}", "expired")


def principal(
    matches: Callable[[tuple[str, ...]], bool], context: Context, *, bound: bool
) -> Check:
    """Compare who a token is bound to with who presents it.

    Args:
        matches: Whether the token is bound to a principal of these parts.
        context: Who presents it.
        bound: Whether the token is bound to anybody.

    Returns:
        The check. No principal is in it: the token holds none, and the other is not for a screen.
    """
    parts = context.principal
    sealed = "bound to a principal" if bound else "bound to nobody"
    if not context.principal_known:
        return not_compared("principal", sealed)
    if parts is None:
        if not bound:
            return Check("principal", "pass", f"{sealed}, presented by nobody")
        return Check("principal", "fail", f"{sealed}, presented by nobody", "principal")
    if not bound:
        return Check("principal", "fail", f"{sealed}, presented by somebody", "principal")
    if matches(parts):
        return Check("principal", "pass", "bound to this principal")
    found = near.principal(parts, matches) or near.Near("bound to another principal")
    return Check("principal", "fail", found.message, "principal", found.hint)


def request(
    sealed: tuple[str, str] | None, matches: Callable[[Call], bool], context: Context
) -> Check:
    """Compare the request a token is bound to with the one it came with.

    Args:
        sealed: Method and target that the token is bound to; None: to no request.
        matches: Whether the token is bound to this request.
        context: The request it came with.

    Returns:
        The check; it tells which of method, target and arguments differs.
    """
    call = context.call
    bound = "bound to no request" if sealed is None else f"bound to {_shown(*sealed)}"
    if not context.call_known:
        return not_compared("request", bound)
    if sealed is None or call is None:
        if sealed is None and call is None:
            return Check("request", "pass", f"{bound}, presented with none")
        came = "none" if call is None else _shown(call.method, target_of(call))
        return Check("request", "fail", f"{bound}, presented with {came}", "request")
    if matches(call):
        return Check("request", "pass", f"{_shown(*sealed)} with the same arguments")
    found = near.Near(f"the arguments differ; method and target are the same, {_shown(*sealed)}")
    if (call.method, target_of(call)) != sealed:
        found = near.Near(f"{bound}, presented with {_shown(call.method, target_of(call))}")
    else:
        found = near.arguments(call, matches) or found
    return Check("request", "fail", found.message, "request", found.hint)


def not_compared(name: str, detail: str) -> Check:
    """Write down a check for which the person gave nothing to compare with."""
    return Check(name, "skipped", f"{detail}; compare with --{name}", hint=f"--{name}")


def target_of(call: Call) -> str:
    """Give what a request is about: the name of a tool or prompt, the uri of a resource."""
    target: object = call.params.get("uri" if call.method == "resources/read" else "name", "")
    return target if isinstance(target, str) else ""


def _shown(method: str, target: str) -> str:
    return f"{printable(method)} {printable(target)}"

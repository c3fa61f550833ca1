"""What a token says that nobody has authenticated: the claims of a signed one, for who asks.

All of it may be a lie, and the report says so. The bytes go through parsers that slice or that are
bounded, never through a general decoder.
"""

from __future__ import annotations

from statebox.claims import decode_payload
from statebox_cli import cbor_text, sdk_claims
from statebox_cli.anatomy import take_apart
from statebox_cli.judging import Context, Verdict, skipped_after
from statebox_cli.verdict import describe, without_key


def look(token: str, context: Context) -> Verdict:
    """Make the checks that need no key, and read what can be read without one.

    Args:
        token: Any text.
        context: For the cap.

    Returns:
        The checks; the claims of a signed token, which are UNVERIFIED.
    """
    anatomy = take_apart(token)
    checks = without_key(token, anatomy, context)
    if checks[-1].status == "fail":
        return Verdict(checks=skipped_after(checks, "the token could not be read so far"))
    made = skipped_after(checks, "needs the keyring")
    if anatomy.frame is None or anatomy.frame.encrypted:
        return Verdict(checks=made)
    payload = anatomy.frame.body
    try:
        claims = decode_payload(payload)
        state = cbor_text.parse(claims.state)
        return Verdict(checks=made, claims=describe(claims), state=state, has_state=True)
    except ValueError:
        sdk = sdk_claims.read(payload, cbor_text.parse)
    if sdk is None:
        return Verdict(checks=made)
    described = sdk_claims.describe(sdk)
    return Verdict(checks=made, claims=described, state=sdk.state, has_state=True)

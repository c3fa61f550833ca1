"""What inspect says of one token: everything that is known of it, as a Report.

`reading` shows it to a person; `as_json` is the object of `--json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from statebox.keyring import Keyring
from statebox_cli import foreign, unverified
from statebox_cli.anatomy import take_apart
from statebox_cli.cbor_text import diagnostic, is_json
from statebox_cli.foreign import Foreign
from statebox_cli.judging import Check, Context, Verdict, skipped_after
from statebox_cli.output import Problem
from statebox_cli.verdict import judge

_NOT_PROTECTED: Final = (
    "{}: not protected, anyone can read it and change it",
    "Seal it: a server that trusts this trusts whatever a client sends.",
)
_OTHER_CODEC: Final = (
    "this is {}, not of statebox",
    "A replica runs without statebox: set it up like the others; --sdk-key-file checks this token.",
)
_OTHER: Final = (
    "this is {}, not a token of statebox",
    "Find out what put it there: a requestState goes back as it came.",
)


class Report(NamedTuple):
    """One token, and everything that is known of it.

    Attributes:
        name: What it is, for a person.
        token: Its format, algorithm, kid, id and sizes, for JSON.
        parts: The size of each part in bytes.
        verified: Whether every check that was made held; None if there was no key to check with.
        verdict: The checks, the claims, the state.
    """

    name: str
    token: dict[str, Any]
    parts: Mapping[str, int]
    verified: bool | None
    verdict: Verdict

    @property
    def problem(self) -> Problem | None:
        """The error that a server raises; None if there is none that is known of."""
        return self.verdict.problem

    def as_json(self, *, show_state: bool) -> dict[str, Any]:
        """Give the object of `--json`.

        Args:
            show_state: Whether the state was asked for; it is one of the claims then.
        """
        claims = self.verdict.claims
        if show_state and self.verdict.has_state:
            state = self.verdict.state
            shown = {"state": state} if is_json(state) else {"state_diagnostic": diagnostic(state)}
            claims = (claims or {}) | shown
        problem = self.problem
        return {
            "token": self.token,
            "key": self.verdict.key,
            "verified": self.verified,
            "claims": claims,
            "checks": [
                {"name": check.name, "status": check.status, "detail": check.detail}
                for check in self.verdict.checks
            ],
            "error": None if problem is None else problem._asdict(),
        }


def examine(
    text: str, rings: Sequence[Keyring], sdk_keys: Sequence[bytes], context: Context
) -> Report:
    """Say everything that can be said of a token.

    Args:
        text: Any text.
        rings: The server's ring, and others to compare it with; none: nothing is verified.
        sdk_keys: Keys of servers of other SDKs.
        context: What to check against.
    """
    other = None if text[:4].lower() == "sb1." else foreign.recognise(text)
    if other is not None:
        return _foreign(text, other, rings, sdk_keys, context)
    anatomy = take_apart(text)
    verdict = judge(text, rings, context) if rings else unverified.look(text, context)
    known = anatomy.message is not None or text.startswith("sb1")
    mode = {"A256GCM": "encrypted", "HS256": "signed"}.get(anatomy.alg or "", "not whole")
    return Report(
        name=f"a token of statebox, {mode}" if known else "no token that is known here",
        token={
            "format": "sb1" if known else "unknown",
            "alg": anatomy.alg,
            "kid": None if anatomy.header is None else anatomy.header.kid,
            "id": anatomy.token_id,
            "chars": anatomy.chars,
            "bytes": None if anatomy.message is None else len(anatomy.message),
        },
        parts=anatomy.parts,
        verified=verdict.problem is None if rings else None,
        verdict=verdict,
    )


def _foreign(
    text: str,
    token: Foreign,
    rings: Sequence[Keyring],
    sdk_keys: Sequence[bytes],
    context: Context,
) -> Report:
    readable = token.format in foreign.READABLE
    if readable and sdk_keys:
        from statebox_cli import sdk_tokens  # needs cryptography's HKDF, and is rarely asked for

        verdict = sdk_tokens.judge(token, sdk_keys, context)
    elif readable and not rings:
        verdict = _as_it_says(token, Check("text_form", "pass", token.name))
    else:
        why, hint = _OTHER_CODEC if readable else _NOT_PROTECTED if token.has_state else _OTHER
        failed = Check("text_form", "fail", why.format(token.name), "malformed", hint)
        verdict = _as_it_says(token, failed)
    return Report(
        name=token.name,
        token={
            "format": token.format,
            "alg": token.alg,
            "kid": token.kid,
            "id": token.token_id,
            "chars": len(text),
            "bytes": len(token.message),
        },
        parts=token.parts,
        verified=verdict.problem is None if rings or (readable and sdk_keys) else None,
        verdict=verdict,
    )


def _as_it_says(token: Foreign, check: Check) -> Verdict:
    reason = "not a token of statebox" if check.status == "fail" else "needs --sdk-key-file"
    return Verdict(
        checks=skipped_after([check], reason),
        claims=token.claims,
        state=token.state,
        has_state=token.has_state,
    )

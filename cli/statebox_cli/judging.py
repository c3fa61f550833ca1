"""What a judgement is made of: the context, the checks and their outcome.

`verdict` judges statebox's own tokens with them, `sdk_claims` those of its codec, and
`sdk_tokens` those of other SDKs.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from statebox import errors
from statebox.limits import DEFAULT_LEEWAY, DEFAULT_MAX_ROUNDS
from statebox.sealer import DEFAULT_MAX_TOKEN_CHARS
from statebox.state import State
from statebox_cli.find import Call
from statebox_cli.output import Problem

Status = Literal["pass", "fail", "skipped"]

CHECKS: Final = (
    "length",
    "text_form",
    "frame",
    "key",
    "authentication",
    "payload",
    "audience",
    "issued",
    "expiry",
    "flow",
    "rounds",
    "principal",
    "request",
    "single_use",
)
"""The checks of the format's section 6, in its order."""


class Check(NamedTuple):
    """One check and how it came out.

    Attributes:
        name: One of CHECKS.
        status: How it came out.
        detail: Both sides of what was compared, in a few words.
        code: The code of the error that a server raises where it failed.
        hint: What to do, where more is known than the error's own hint says; of a check that was
            skipped, the option to give.
    """

    name: str
    status: Status
    detail: str
    code: str | None = None
    hint: str | None = None


class Context(NamedTuple):
    """What a token is checked against, as far as the person knows it.

    Attributes:
        now: The moment to judge by, in seconds since 1970.
        audience: The name of the service; None: not known.
        principal: Who presents the token: its parts, or None for nobody.
        principal_known: Whether `principal` is to be compared at all.
        call: The request it came with; None: none.
        call_known: Whether `call` is to be compared at all.
        leeway: How far iat may lie ahead, in seconds.
        max_rounds: How many rounds a flow may have.
        max_token_chars: The longest token, in characters.
        codec: Whether the claims of the SDK are judged as the SDK does, where a token carries
            them; else it is malformed, as it is to `Statebox.open`.
    """

    now: float
    audience: str | None = None
    principal: tuple[str, ...] | None = None
    principal_known: bool = False
    call: Call | None = None
    call_known: bool = False
    leeway: int = DEFAULT_LEEWAY
    max_rounds: int = DEFAULT_MAX_ROUNDS
    max_token_chars: int = DEFAULT_MAX_TOKEN_CHARS
    codec: bool = True


class Verdict(NamedTuple):
    """How all checks came out.

    Attributes:
        checks: Every check, in the order in which the server makes them.
        key: What is known of the key: its role, its dates; None without one.
        claims: What the token says, if that is authenticated (or not protected from reading).
        state: The state, if it is known.
        has_state: Whether `state` is known.
    """

    checks: tuple[Check, ...]
    key: dict[str, Any] | None = None
    claims: dict[str, Any] | None = None
    state: State = None
    has_state: bool = False

    @property
    def problem(self) -> Problem | None:
        """The error that a server raises: that of the first check that failed."""
        for check in self.checks:
            if check.status == "fail" and check.code is not None:
                return Problem(check.code, check.detail, check.hint or hint_of(check.code))
        return None


_HINTS: Final = {
    error.code: error.default_hint
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.OpenError)
} | {"malformed": "Get it whole, from the request itself: a client sends back what it was given."}


def hint_of(code: str) -> str:
    """Give what the library says to do about an error."""
    return _HINTS[code]


def skipped_after(done: list[Check], reason: str) -> tuple[Check, ...]:
    """Add the checks that were not made, each with the same reason."""
    names = {check.name for check in done}
    return (*done, *(Check(name, "skipped", reason) for name in CHECKS if name not in names))

"""Every error statebox raises, in one tree, each with a stable code and a hint.

`except StateboxError` catches them all; `except OpenError` is enough around `Statebox.open`.
No message, hint or attribute ever holds a token, a state, a principal or a secret.

Two rules give the tree its shape:

* What is found before a token is authenticated says nothing of the token's content.
* What is found after it, a `ClaimError` or a failure of single use, may name a flow, a round and
  a time; nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class StateboxError(Exception):
    """The root of the tree; never raised itself.

    Attributes:
        code: A stable, machine-readable name for the kind of failure.
        message: One line that says what is wrong.
        hint: One line that says what to do about it.
    """

    code: str = "statebox"
    default_hint: ClassVar[str] = "Read the message."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint


class KeyringError(StateboxError):
    """A keyring cannot be used: unreadable, malformed, unsafe, or without an active key."""

    code = "keyring"
    default_hint = "Run `statebox keys check` on this keyring."

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        # Most are seen once, as the traceback of a server that does not start.
        self.add_note(f"Hint: {self.hint}")


class SealError(StateboxError):
    """A state was not sealed. Nothing was returned, and nothing is half done.

    Attributes:
        code: `too_large`, `unsupported_state`, `too_many_rounds` or `flow_expired`.
        path: For `unsupported_state`, where the value lies, as in `$.items[2]`; else None.
    """

    code = "unsupported_state"
    default_hint = "Keep the state small and plain: null, bool, int, float, str, bytes, list, dict."

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, path: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.path = path

    def __reduce__(self) -> tuple[type[SealError], tuple[str, str], dict[str, object]]:
        # By default an error is made again of its message alone, and this one takes a code first.
        return type(self), (self.code, self.message), self.__dict__


class OpenError(StateboxError):
    """A token was refused. Every failure of `Statebox.open` is one of these.

    Attributes:
        key_id: The kid that the token names, where the ring has such a key; else None.
        token_id: 32 hex digits that name the token in logs, once it has been authenticated.
        flow: 16 hex digits, the same in every round of a flow. This and what follows is None
            until the token has been authenticated, so for all but a `ClaimError` and single use.
        round: The round within the flow, from 1.
        issued_at: Seconds since 1970.
        expires_at: Seconds since 1970.
    """

    code = "open"
    token_id: str | None = None
    flow: str | None = None
    round: int | None = None
    issued_at: int | None = None
    expires_at: int | None = None

    def __init__(self, message: str, *, hint: str | None = None, key_id: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key_id = key_id


class MalformedTokenError(OpenError):
    """The text is not a token of this format, or its payload is not of the one allowed shape."""

    code = "malformed"
    default_hint = "Check that the token arrived whole: `statebox inspect` says what it looks like."


class TokenTooLargeError(OpenError):
    """The text is longer than the cap; nothing of it was decoded."""

    code = "too_large"
    default_hint = "Raise max_token_chars on every replica if tokens of this size are meant."


class UnknownKeyError(OpenError):
    """The ring has no key under the header that the token carries."""

    code = "unknown_key"
    default_hint = "Compare the rings of all replicas with `statebox keys diff`."


class RevokedKeyError(OpenError):
    """The token's key was revoked."""

    code = "revoked_key"
    default_hint = "The flow has to be started again; `statebox keys list` shows the revocation."


class ExpiredKeyError(OpenError):
    """The token's key is past its exp."""

    code = "expired_key"
    default_hint = "The flow has to be started again; `statebox keys list` shows the key's dates."


class AuthenticationError(OpenError):
    """The tag does not match: the token was changed, or another secret carries the same kid."""

    code = "authentication"
    default_hint = "Tampering, or two rings with one kid: run `statebox keys diff` to tell which."


class ReplayedTokenError(OpenError):
    """The token was valid and has been spent before."""

    code = "replayed"
    default_hint = "Nothing to do: the first presenter was served, and this one was not."


class GuardUnavailableError(OpenError):
    """The single-use store gave no answer, so the token was refused unspent."""

    code = "guard_unavailable"
    default_hint = "Bring the store of the replay guard back; the client may try again."


class ClaimError(OpenError):
    """A token is authentic, but it is not for here, for now, for this user or this request."""

    code = "claim"


class AudienceError(ClaimError):
    """The token was sealed for another service."""

    code = "audience"
    default_hint = "Give every replica of one service the same audience, and no two services one."


class ExpiredTokenError(ClaimError):
    """The token is past its exp."""

    code = "expired"
    default_hint = "The user took longer than the ttl: start again, or raise the ttl."


class FutureTokenError(ClaimError):
    """The token was issued further ahead of this clock than the leeway allows."""

    code = "issued_in_future"
    default_hint = "Compare the clocks of the replicas; the leeway is 60 seconds unless configured."


class ExpiredFlowError(ClaimError):
    """The whole flow is past its deadline."""

    code = "flow_expired"
    default_hint = "Start the flow again, or raise max_flow_age."


class TooManyRoundsError(ClaimError):
    """The flow has more rounds than allowed."""

    code = "too_many_rounds"
    default_hint = "Look for a handler that asks without end, or raise max_rounds."


class PrincipalError(ClaimError):
    """The token is bound to another principal, or to none."""

    code = "principal"
    default_hint = "The presenter is not the one the state was sealed for."


class RequestError(ClaimError):
    """The token is bound to another request, or to none."""

    code = "request"
    default_hint = "The client must send the original request again: same method, name, arguments."


def leaving_no_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Let what a function raises about its arguments begin where the function was called.

    For functions whose arguments hold secrets: loggers that show local variables (Sentry, rich,
    `traceback` with `capture_locals`) would print those of every frame that an error went through.

    Args:
        function: Raises StateboxError, TypeError or ValueError, and nothing with a secret in it.

    Returns:
        The same function; its errors have no frames of its own, no cause and no context.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        problem: Exception
        try:
            return function(*args, **kwargs)
        except (StateboxError, TypeError, ValueError) as error:
            problem = error.with_traceback(None)
        del args, kwargs
        problem.__cause__ = problem.__context__ = None
        raise problem

    return wrapper

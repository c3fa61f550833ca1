"""Who is asking: the principal that a state is bound to, found anew in every round.

Everything here fails closed. Whatever goes wrong while a principal is looked for, the round ends,
and the reason that is logged names no principal.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, cast, final

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.server.context import ServerRequestContext

from statebox.bindings import Principal
from statebox.errors import PrincipalError
from statebox.events import is_asynchronous

PrincipalCallable: TypeAlias = Callable[[ServerRequestContext[Any, Any]], Principal | None]
"""Tells from the SDK's request context who is asking, or None for nobody."""

PrincipalOption: TypeAlias = PrincipalCallable | Literal["require"] | None
"""What `principal=` takes: a callable, `"require"`, or None to bind to nobody."""

REQUIRE: Final = "require"


def authenticated_principal(
    ctx: ServerRequestContext[Any, Any],  # noqa: ARG001 - the SDK keeps the identity elsewhere
) -> Principal | None:
    """Give the SDK's authenticated identity: issuer, subject and client.

    The parts are those that the SDK itself tells the owners of sessions apart by. A token verifier
    that gives no subject leaves two users of one OAuth client one principal.

    Args:
        ctx: The request's context.

    Returns:
        `[issuer, subject, client_id]`, a part that is absent as `""`; None without authentication.
    """
    token = get_access_token()
    if token is None:
        return None
    client_id, issuer, subject = principal_components(token)
    return [issuer or "", subject or "", client_id]


@final
class PrincipalBinding:
    """A `principal=` option, checked once and asked once a round.

    Args:
        option: A callable, `"require"`, or None.

    Raises:
        TypeError: It is none of these, or the callable is asynchronous.
    """

    __slots__ = ("_find", "_required")

    def __init__(self, option: PrincipalOption) -> None:
        self._required = option == REQUIRE
        self._find: PrincipalCallable | None
        if option is None:
            self._find = None
        elif self._required:
            self._find = authenticated_principal
        elif not callable(option):
            raise TypeError('principal is a callable, "require", or None to bind to nobody')
        elif is_asynchronous(option):
            raise TypeError("the principal callable is asynchronous; it is called, never awaited")
        else:
            self._find = option

    def find(self, ctx: ServerRequestContext[Any, Any]) -> str | tuple[str, ...] | None:
        """Ask who is asking.

        Args:
            ctx: The request's context.

        Returns:
            The principal, as one text or as its parts; None to bind to nobody.

        Raises:
            PrincipalError: The callable raised or gave something else, or there is no principal
                where one is required. Neither message nor cause holds one.
        """
        if self._find is None:
            return None
        principal: object = None
        place: str | None = None
        try:
            principal = self._find(ctx)
        except Exception as error:  # noqa: BLE001 - deny on error: a callable that raises refuses the round
            place = _place(error)
        if place is not None:
            # Raised out here: what the callable said may hold the principal, and is no context.
            raise _unknown(f"the principal callable raised {place}")
        if principal is None:
            if self._required:
                raise PrincipalError(
                    "the request has no authenticated principal",
                    hint='principal="require" is set: the server must authenticate its callers.',
                )
            return None
        return _checked(principal)


def _checked(principal: object) -> str | tuple[str, ...]:
    if type(principal) is str and principal:
        return principal
    # The declared type is a promise that a user's callable may break.
    if isinstance(principal, str):
        principal = (principal,)
    if not isinstance(principal, list | tuple):
        raise _unknown(f"the principal callable gave a {type(principal).__name__}")
    parts = cast("list[object] | tuple[object, ...]", principal)
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) != len(parts):
        raise _unknown("the principal callable gave a part that is not text")
    # INVARIANT: nobody is None. An empty name would be one principal that all nameless share.
    if not any(texts):
        raise _unknown("the principal callable gave an empty name; None binds to nobody")
    return tuple(texts)


def _unknown(problem: str) -> PrincipalError:
    return PrincipalError(problem, hint="Mend the callable that was given as principal=.")


def _place(error: Exception) -> str:
    """Name an error and the line that raised it, without a word of its message."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {PurePath(frame.filename).name}:{frame.lineno}"

"""What the wire is told of a failure, which is always the same, and what the log is told."""

from __future__ import annotations

import logging
from typing import Final, NoReturn

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from statebox.errors import MalformedTokenError, OpenError, StateboxError

logger: Final = logging.getLogger("statebox.mcp")


def refuse(method: str, error: StateboxError) -> NoReturn:
    """Answer a state that is refused: the wire gets one answer for every reason, the log this one.

    Raises:
        MCPError: Always, code -32602.
    """
    fields = _fields(method, error)
    logger.warning(
        "requestState refused on %s: %s: %s (kid=%s flow=%s token=%s)",
        *(method, error.code, error.message),
        *(fields[name] or "-" for name in ("statebox_kid", "statebox_flow", "statebox_token")),
        extra=fields,
    )
    raise MCPError(
        code=INVALID_PARAMS,
        message="Invalid or expired requestState",
        data={"reason": "invalid_request_state"},
    ) from error


def never_opened() -> MalformedTokenError:
    """Make the error for a state that came by the name it has in Python, past who opens states."""
    return MalformedTokenError(
        "the params hold request_state, which nothing opens: on the wire it is requestState",
        hint="A client that writes names as Python has them, or one that tries to hand over a state of its own: look who it is.",
    )


def fail(method: str, error: StateboxError, flow: str | None = None) -> NoReturn:
    """Answer a state that cannot be sealed; that is the server's fault, so the log gets the hint.

    Raises:
        MCPError: Always, code -32603.
    """
    logger.error(
        "requestState not sealed on %s: %s: %s; %s (flow=%s)",
        *(method, error.code, error.message, error.hint, flow or "-"),
        extra=_fields(method, error) | {"statebox_flow": flow},
    )
    raise MCPError(code=INTERNAL_ERROR, message="Internal error") from error


def _fields(method: str, error: StateboxError) -> dict[str, str | None]:
    # INVARIANT: names only. No token, state or principal, and no name or uri that a client chose.
    token_id = error.token_id if isinstance(error, OpenError) else None
    return {
        "statebox_code": error.code,
        "statebox_method": method,
        "statebox_kid": error.key_id if isinstance(error, OpenError) else None,
        "statebox_flow": error.flow if isinstance(error, OpenError) else None,
        "statebox_token": None if token_id is None else token_id[:8],
    }

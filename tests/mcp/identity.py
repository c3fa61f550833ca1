"""The SDK's authenticated identity, without a connection."""

from collections.abc import Generator
from contextlib import contextmanager

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

ISSUER = "https://login.example"


@contextmanager
def authenticated(subject: str | None, issuer: str | None = ISSUER) -> Generator[None]:
    """Be this user of the client "app", as the SDK's bearer middleware would have it."""
    token = AccessToken(
        token="a bearer token",
        client_id="app",
        scopes=[],
        subject=subject,
        claims=None if issuer is None else {"iss": issuer},
    )
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)

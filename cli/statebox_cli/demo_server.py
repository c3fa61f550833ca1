"""The server of `statebox demo`, a process of its own: an MCPServer whose refund asks first.

    python -m statebox_cli.demo_server keyring.json

The first line of stdout is its port; its log goes to stderr.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from typing import Annotated, Any, Final

import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import AnyHttpUrl, BaseModel

from statebox import Statebox
from statebox.mcp import protect

AUDIENCE: Final = "billing"
ISSUER: Final = "https://login.example"
CLIENT_ID: Final = "demo-app"
USERS: Final = ("alice", "bob")


class Users(TokenVerifier):
    """Two users of one OAuth client; in the demo a bearer token is simply the name."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Give the identity behind a bearer token."""
        if token not in USERS:
            return None
        return AccessToken(
            token=token, client_id=CLIENT_ID, scopes=[], subject=token, claims={"iss": ISSUER}
        )


class Confirmation(BaseModel):
    """What the user is asked for."""

    yes: bool


def confirm(order: str) -> Elicit[Confirmation]:
    """Ask the user, wherever the client shows it."""
    return Elicit(f"Refund {order}?", Confirmation)


def refund(order: str, confirmation: Annotated[Confirmation, Resolve(confirm)]) -> str:
    """Refund an order once the user has said yes."""
    done = f"refunded {order}" if confirmation.yes else f"{order} stays as it is"
    return f"{done} (process {os.getpid()})"


def server_of(keyring: str) -> MCPServer[Any]:
    """Make the server; the last line is what statebox adds."""
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(ISSUER),
        resource_server_url=AnyHttpUrl("http://127.0.0.1/mcp"),
        validate_token_resource=False,
    )
    server = MCPServer[Any]("refunds", auth=auth, token_verifier=Users())
    server.add_tool(refund)
    protect(server, Statebox.from_source(f"file:{keyring}", audience=AUDIENCE))
    return server


def main() -> None:
    """Serve until the parent ends the process."""
    logging.basicConfig(stream=sys.stderr, format="%(name)s %(message)s", force=True)
    app = server_of(sys.argv[1]).streamable_http_app()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Connections queue from here on, so whoever reads the port may use it at once.
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()

"""One replica: every kind of server under every ring, in one process, on a port of its choice.

    python -m tests.mcp.servers.replica A256GCM=ring.json HS256=other.json

The first line of stdout is the port. Everything that is logged goes to stderr.
"""

import logging
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.mcp.servers.kinds import KINDS


def replica(rings: dict[str, str]) -> Starlette:
    """Mount every kind under every ring, as `/fastmcp/HS256/mcp`."""
    apps = {
        f"/{kind}/{alg}": make(path) for alg, path in rings.items() for kind, make in KINDS.items()
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        # A mounted application's own lifespan is not run by the one that mounts it.
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    return Starlette(routes=[Mount(path, app) for path, app in apps.items()], lifespan=lifespan)


def main() -> None:
    """Serve until the parent ends the process."""
    logging.basicConfig(stream=sys.stderr, format="%(name)s %(levelname)s %(message)s", force=True)
    app = replica(dict(argument.split("=", 1) for argument in sys.argv[1:]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Connections queue from here on, so whoever reads the port may use it at once.
        print(listener.getsockname()[1], flush=True)  # noqa: T201 - the parent reads it
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()

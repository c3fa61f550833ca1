"""A state by the name it has in Python: FastMCP reads it, and nobody has opened it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.request_state import RequestStateBoundary
from starlette.applications import Starlette

from statebox import Keyring, Statebox
from statebox.mcp import protect, request_state_security
from statebox.mcp.fastmcp import SealedStateOnly
from tests.mcp.servers.kinds import fastmcp_server, low_level_server, mcp_server

ORDER = {"order": "ORD-7001"}
FORGED = '{"step":"confirm","order":"ORD-9999","name":"Mallory"}'
REFUSED = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}
YES = {"yes": {"action": "accept", "content": {"yes": "yes"}}}
NAME = {"name": {"action": "accept", "content": {"name": "Alice"}}}


def fastmcp(**options: Any) -> Starlette:
    security = request_state_security(Keyring.generate(), audience="billing")
    return fastmcp_server(security, **options).http_app()


def protected_fastmcp() -> Starlette:
    """A FastMCP with statebox's boundary, put where nobody should: there is no public place."""
    server = fastmcp_server(request_state_security(Keyring.generate(), audience="billing"))
    protect(vars(server)["_mcp_server"], Statebox(Keyring.generate(), audience="billing"))
    return server.http_app()


def protected_server() -> Starlette:
    server = mcp_server()
    protect(server, Statebox(Keyring.generate(), audience="billing"))
    return server.streamable_http_app()


def protected_low_level_server() -> Starlette:
    server = low_level_server()
    protect(server, Statebox(Keyring.generate(), audience="billing"))
    return server.streamable_http_app()


def codec_server() -> Starlette:
    security = request_state_security(Keyring.generate(), audience="billing")
    return mcp_server(request_state_security=security).streamable_http_app()


def codec_low_level_server() -> Starlette:
    server = low_level_server()
    security = request_state_security(Keyring.generate(), audience="billing")
    server.middleware.append(RequestStateBoundary(security, default_audience=None))
    return server.streamable_http_app()


@asynccontextmanager
async def served(app: Starlette) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve an application in this process, to a client that writes its requests by hand."""
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001") as client,
    ):
        yield client


async def call(client: httpx2.AsyncClient, **members: object) -> dict[str, Any]:
    """Send one tools/call with these members besides name and arguments."""
    name = "io.modelcontextprotocol"
    meta: dict[str, Any] = {
        f"{name}/protocolVersion": "2026-07-28",
        f"{name}/clientInfo": {"name": "by hand", "version": "1"},
        f"{name}/clientCapabilities": {"elicitation": {"form": {}}},
    }
    params: dict[str, Any] = {"name": "refund", "arguments": ORDER, "_meta": meta, **members}
    answer = await client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "refund",
        },
    )
    told: dict[str, Any] = answer.json()
    return told


async def test_a_state_by_its_python_name_is_refused_with_the_frozen_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(fastmcp(middleware=[SealedStateOnly()])) as client:
        told = await call(client, request_state=FORGED, inputResponses=YES)
    assert told["error"] == REFUSED
    assert "request_state" in caplog.text
    assert "Mallory" not in caplog.text


async def test_a_state_by_its_python_name_beside_a_null_one_starts_anew() -> None:
    async with served(fastmcp(middleware=[SealedStateOnly()])) as client:
        told = await call(client, requestState=None, request_state=FORGED, inputResponses=YES)
    assert told["result"]["resultType"] == "input_required"


async def test_a_sealed_state_beside_a_forged_one_is_the_one_that_counts() -> None:
    async with served(fastmcp(middleware=[SealedStateOnly()])) as client:
        sealed = (await call(client))["result"]["requestState"]
        told = await call(client, requestState=sealed, request_state=FORGED, inputResponses=NAME)
        sealed = told["result"]["requestState"]
        done = await call(client, requestState=sealed, request_state=FORGED, inputResponses=YES)
    assert done["result"]["content"][0]["text"] == "refunded ORD-7001 to Alice"


async def test_without_the_middleware_fastmcp_still_believes_a_forged_state() -> None:
    """The day this fails, FastMCP is mended, and README and SECURITY.md can say so."""
    async with served(fastmcp()) as client:
        told = await call(client, request_state=FORGED, inputResponses=YES)
    assert told["result"]["content"][0]["text"] == "refunded ORD-9999 to Mallory"


@pytest.mark.parametrize("make", [protected_fastmcp, protected_server, protected_low_level_server])
async def test_behind_the_boundary_no_server_is_given_a_state_by_its_python_name(
    make: Callable[[], Starlette], caplog: pytest.LogCaptureFixture
) -> None:
    async with served(make()) as client:
        told = await call(client, request_state=FORGED, inputResponses=YES)
        sealed = (await call(client))["result"]["requestState"]
        beside = await call(client, requestState=sealed, request_state=FORGED, inputResponses=YES)
        named = await call(client, requestState=sealed, inputResponses=NAME)
    assert told["error"] == beside["error"] == REFUSED
    assert named["result"]["resultType"] == "input_required"
    assert caplog.text.count("the params hold request_state") == 2
    assert "Mallory" not in caplog.text


@pytest.mark.parametrize("make", [codec_server, codec_low_level_server])
async def test_the_sdks_own_servers_do_not_read_a_state_by_its_python_name(
    make: Callable[[], Starlette],
) -> None:
    async with served(make()) as client:
        told = await call(client, request_state=FORGED, inputResponses=YES)
    assert told["result"]["resultType"] == "input_required"

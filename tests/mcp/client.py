"""The SDK's own client over HTTP: one round of the refund tool, and what it was told."""

from collections.abc import Mapping

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    TextContent,
)

ORDER = {"order": "ORD-7001"}
Told = CallToolResult | InputRequiredResult | MCPError


async def call(
    url: str,
    state: str | None = None,
    *,
    user: str = "alice",
    arguments: Mapping[str, object] = ORDER,
    **answer: str,
) -> Told:
    """Do one round as this user; an error answer is an answer."""
    answers: InputResponses = {
        key: ElicitResult(action="accept", content={key: value}) for key, value in answer.items()
    }
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {user}-token"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        try:
            return await client.session.call_tool(
                "refund",
                dict(arguments),
                request_state=state,
                input_responses=answers or None,
                allow_input_required=True,
            )
        # Caught in here: the client's task group would wrap it in a group of its own.
        except MCPError as error:
            return error


async def asked(url: str, state: str | None = None, *, user: str = "alice", **answer: str) -> str:
    """Do one round that ends in a question, and give the state that came with it."""
    told = await call(url, state, user=user, arguments=ORDER, **answer)
    assert isinstance(told, InputRequiredResult)
    assert told.request_state is not None
    return told.request_state


def text_of(told: Told) -> str:
    """Give the text of a result that is no error."""
    assert isinstance(told, CallToolResult)
    assert not told.is_error
    (content,) = told.content
    assert isinstance(content, TextContent)
    return content.text


def refused(told: Told) -> bool:
    """Tell whether an answer is the one frozen refusal."""
    return isinstance(told, MCPError) and (told.code, told.message, told.data) == (
        -32602,
        "Invalid or expired requestState",
        {"reason": "invalid_request_state"},
    )

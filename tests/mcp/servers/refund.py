"""A refund in three rounds, as every server of these tests runs it: asks a name, then a yes."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)

Round = Callable[[str, str | None, InputResponses | None], Awaitable[str | InputRequiredResult]]
"""Does one round of a flow, from the order, the state and the answers that came in."""


async def refund(
    order: str, state: str | None, answers: InputResponses | None
) -> str | InputRequiredResult:
    """Do one round: the first asks for a name, the second for a yes, the third is done."""
    if state is None:
        return _ask("name", "Who asks for the refund?", {"step": "name", "order": order})
    carried: dict[str, Any] = json.loads(state)
    if carried["step"] == "name":
        name = str(_answer(answers, "name"))
        question = f"Refund {order} to {name}?"
        return _ask("yes", question, {"step": "confirm", "order": order, "name": name})
    if _answer(answers, "yes") != "yes":
        return f"{order} stays as it is"
    return f"refunded {carried['order']} to {carried['name']}"


def _ask(key: str, message: str, state: dict[str, str]) -> InputRequiredResult:
    schema = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    return InputRequiredResult(
        input_requests={
            key: ElicitRequest(
                params=ElicitRequestFormParams(message=message, requested_schema=schema)
            )
        },
        request_state=json.dumps(state, separators=(",", ":")),
    )


def _answer(answers: InputResponses | None, key: str) -> object:
    answer = (answers or {}).get(key)
    return (answer.content or {}).get(key) if isinstance(answer, ElicitResult) else None

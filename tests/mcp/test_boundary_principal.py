"""Who a state is bound to through the boundary."""

from typing import Any, cast

import pytest
from mcp.server.context import ServerRequestContext

from statebox import Statebox
from statebox.bindings import Principal
from statebox.mcp import StateboxBoundary
from statebox.mcp.principal import PrincipalOption
from tests.mcp.identity import ISSUER, authenticated
from tests.mcp.rounds import CALL, STATE, Handler, code, context, failure, paused, refusal, state_of

ALICE = [ISSUER, "alice", "app"]


async def test_a_state_is_bound_to_the_authenticated_user(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    with authenticated("alice"):
        token = await state_of(boundary, context())
        assert box.open(token, principal=ALICE, request=CALL).state == STATE
    with authenticated("bob"):
        assert code(await refusal(boundary, context(state=token), caplog)) == "principal"
    with authenticated("alice", issuer="https://other.example"):
        assert code(await refusal(boundary, context(state=token), caplog)) == "principal"
    assert code(await refusal(boundary, context(state=token), caplog)) == "principal"
    with authenticated("alice"):
        handler = Handler()
        await boundary(context(state=token), handler)
        assert handler.state == STATE


async def test_a_state_of_nobody_is_refused_to_somebody(
    box: Statebox, caplog: pytest.LogCaptureFixture
) -> None:
    boundary = StateboxBoundary(box)
    token = await state_of(boundary, context())
    with authenticated("alice"):
        assert code(await refusal(boundary, context(state=token), caplog)) == "principal"


async def test_none_binds_nobody(box: Statebox) -> None:
    boundary = StateboxBoundary(box, principal=None)
    with authenticated("alice"):
        token = await state_of(boundary, context())
    assert box.open(token, principal=None, request=CALL).state == STATE


async def test_a_callable_says_who_is_asking_once_a_round(box: Statebox) -> None:
    asked: list[ServerRequestContext[Any, Any]] = []

    def principal(ctx: ServerRequestContext[Any, Any]) -> Principal:
        asked.append(ctx)
        return ["tenant-1", "alice"]

    boundary = StateboxBoundary(box, principal=principal)
    token = await state_of(boundary, context())
    assert box.open(token, principal=["tenant-1", "alice"], request=CALL).state == STATE
    ctx = context(state=token)
    await state_of(boundary, ctx)
    assert len(asked) == 2
    assert asked[1] is ctx


async def test_nobody_asks_who_it_is_where_no_state_is_carried(box: Statebox) -> None:
    def principal(ctx: ServerRequestContext[Any, Any]) -> str:
        raise AssertionError("not asked")

    handler = Handler({"content": []})
    assert await StateboxBoundary(box, principal=principal)(context(), handler) is handler.result


def raises(ctx: ServerRequestContext[Any, Any]) -> str:
    raise RuntimeError("sentinel")


def answers(answer: object) -> PrincipalOption:
    return lambda _: cast("Principal", answer)


@pytest.mark.parametrize(
    "principal",
    ["require", raises, answers(7), answers([None])],
    ids=["require", "raises", "number", "part"],
)
async def test_a_principal_that_cannot_be_told_fails_closed_both_ways(
    box: Statebox, caplog: pytest.LogCaptureFixture, principal: PrincipalOption
) -> None:
    unbound = await state_of(StateboxBoundary(box, principal=None), context())
    boundary = StateboxBoundary(box, principal=principal)
    coming_in = await refusal(boundary, context(state=unbound), caplog)
    going_out = await failure(boundary, context(), caplog, paused(STATE))
    assert (code(coming_in), code(going_out)) == ("principal", "principal")
    assert "sentinel" not in coming_in.getMessage() + going_out.getMessage()


async def test_require_serves_an_authenticated_user(box: Statebox) -> None:
    boundary = StateboxBoundary(box, principal="require")
    with authenticated("alice"):
        token = await state_of(boundary, context())
        handler = Handler()
        await boundary(context(state=token), handler)
    assert handler.state == STATE


def test_a_principal_option_of_another_kind_fails_at_once(box: Statebox) -> None:
    with pytest.raises(TypeError, match="principal"):
        StateboxBoundary(box, principal=cast("PrincipalOption", "alice"))

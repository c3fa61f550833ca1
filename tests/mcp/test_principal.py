"""Who is asking: the SDK's identity, a callable's answer, or a refusal that names nobody."""

import traceback
from typing import Any, cast

import pytest
from mcp.server.context import ServerRequestContext

from statebox import PrincipalError
from statebox.bindings import Principal
from statebox.mcp import authenticated_principal
from statebox.mcp.principal import PrincipalBinding, PrincipalOption
from tests.mcp.identity import ISSUER, authenticated
from tests.mcp.rounds import context

Context = ServerRequestContext[Any, Any]


def test_an_authenticated_user_is_issuer_subject_and_client() -> None:
    with authenticated("alice"):
        assert authenticated_principal(context()) == [ISSUER, "alice", "app"]


def test_a_part_that_the_verifier_does_not_give_is_empty() -> None:
    with authenticated(None, issuer=None):
        assert authenticated_principal(context()) == ["", "", "app"]


def test_without_authentication_there_is_nobody() -> None:
    assert authenticated_principal(context()) is None


def test_none_binds_to_nobody_whoever_asks() -> None:
    with authenticated("alice"):
        assert PrincipalBinding(None).find(context()) is None


def test_require_takes_the_authenticated_identity() -> None:
    with authenticated("alice"):
        assert PrincipalBinding("require").find(context()) == (ISSUER, "alice", "app")


def test_require_refuses_a_request_without_one() -> None:
    with pytest.raises(PrincipalError, match="no authenticated principal"):
        PrincipalBinding("require").find(context())


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("alice", "alice"),
        (["alice"], ("alice",)),
        (("issuer", "alice"), ("issuer", "alice")),
        (["", "", "app"], ("", "", "app")),
        (None, None),
    ],
    ids=str,
)
def test_a_callable_may_answer_with_a_text_with_parts_or_with_nobody(
    answer: Principal | None, found: str | tuple[str, ...] | None
) -> None:
    asked: list[Context] = []

    def principal(ctx: Context) -> Principal | None:
        asked.append(ctx)
        return answer

    ctx = context()
    assert PrincipalBinding(principal).find(ctx) == found
    assert asked == [ctx]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        [],
        (),
        ["", ""],
        7,
        True,
        b"alice",
        {"sub": "alice"},
        ["alice", None],
        ["alice", b""],
        {"a"},
    ],
    ids=str,
)
def test_any_other_answer_is_refused(answer: object) -> None:
    with pytest.raises(PrincipalError) as caught:
        PrincipalBinding(lambda _: cast("Principal", answer)).find(context())
    assert "alice" not in str(caught.value)


def test_a_callable_that_raises_is_refused_without_a_word_of_what_it_said() -> None:
    def principal(ctx: Context) -> str:
        raise LookupError("alice with a bearer token")

    with pytest.raises(
        PrincipalError, match=r"raised LookupError at test_principal\.py:\d+"
    ) as caught:
        PrincipalBinding(principal).find(context())
    assert "alice" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_an_interruption_is_not_swallowed() -> None:
    def principal(ctx: Context) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PrincipalBinding(principal).find(context())


@pytest.mark.parametrize("option", ["requires", "", "alice", 7, True, ["alice"]])
def test_an_option_of_another_kind_fails_at_once(option: object) -> None:
    with pytest.raises(TypeError, match="principal is a callable"):
        PrincipalBinding(cast("PrincipalOption", option))


def test_an_asynchronous_callable_fails_at_once() -> None:
    async def principal(ctx: Context) -> str:
        return "alice"

    with pytest.raises(TypeError, match="asynchronous"):
        PrincipalBinding(cast("PrincipalOption", principal))

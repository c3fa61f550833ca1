"""A user's flow over HTTP that began on a server with the SDK's codec and ends on one of ours."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import cast

import pytest

from statebox import Keyring
from tests.mcp.client import asked, call, refused, text_of
from tests.mcp.served import serving
from tests.mcp.servers.cutover import MOVES, After, Before

KEY = "the secret of the old deployment, long enough"


@dataclass(frozen=True)
class Urls:
    """The same server, moved.

    Attributes:
        before: With the SDK's codec.
        after: With statebox, in the window.
        closed: With statebox, after the window.
    """

    before: str
    after: str
    closed: str


@pytest.fixture(params=MOVES, ids=lambda move: move[1].__name__.removesuffix("_after"))
async def urls(request: pytest.FixtureRequest) -> AsyncIterator[Urls]:
    before, after = cast("tuple[Before, After]", request.param)
    ring = Keyring.generate()
    async with AsyncExitStack() as stack:
        apps = (before([KEY]), after(ring, [KEY]), after(ring, None))
        yield Urls(*[await stack.enter_async_context(serving(app)) for app in apps])


async def test_a_flow_goes_on_after_the_move_and_in_our_tokens_from_then_on(urls: Urls) -> None:
    first = await asked(urls.before)
    second = await asked(urls.after, first, name="Alice")
    done = await call(urls.after, second, yes="yes")
    assert text_of(done) == "refunded ORD-7001 to Alice"
    assert [first[:3], second[:4]] == ["v1.", "sb1."]


async def test_a_flow_can_end_with_an_old_token(urls: Urls) -> None:
    second = await asked(urls.before, await asked(urls.before), name="Alice")
    assert second.startswith("v1.")
    assert text_of(await call(urls.after, second, yes="yes")) == "refunded ORD-7001 to Alice"


async def test_a_new_flow_has_none_of_the_sdks_tokens(urls: Urls) -> None:
    first = await asked(urls.after)
    second = await asked(urls.after, first, name="Alice")
    assert [first[:4], second[:4]] == ["sb1.", "sb1."]
    assert text_of(await call(urls.closed, second, yes="yes")) == "refunded ORD-7001 to Alice"


async def test_an_old_token_is_refused_to_another_user(urls: Urls) -> None:
    first = await asked(urls.before)
    assert refused(await call(urls.after, first, user="bob", name="Bob"))


async def test_an_old_token_that_was_changed_is_refused(urls: Urls) -> None:
    first = await asked(urls.before)
    changed = first[:-20] + ("A" if first[-20] != "A" else "B") + first[-19:]
    assert refused(await call(urls.after, changed, name="Alice"))


async def test_an_old_token_is_refused_after_the_window(urls: Urls) -> None:
    assert refused(await call(urls.closed, await asked(urls.before), name="Alice"))

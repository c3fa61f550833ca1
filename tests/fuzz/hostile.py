"""Calls that ended other programs: `python -m tests.fuzz.hostile` makes them all and counts them.

In a process of its own, for what they provoke is no exception: cbor2 ends the interpreter when it
encodes a list of 10,000 lists.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from statebox import Keyring, OpenError, Request, StateboxError
from tests.samples import ALGORITHMS, REQUEST, box, maker
from tests.states import nested
from tests.vectors.forge import payload_of
from tests.vectors.independent import text_of
from tests.vectors.plain_cbor import Raw

LOOP: list[Any] = []
LOOP.extend([LOOP, {"loop": LOOP}])
CIRCLE: dict[str, Any] = {}
CIRCLE["circle"] = (CIRCLE, CIRCLE)


def objects() -> list[Any]:
    """Give what a server may be handed as a state, as arguments or as a part of them."""
    depths = itertools.product((64, 65, 1000, 10_000, 100_000), ("list", "dict", "both"))
    return [
        *itertools.starmap(nested, depths),
        *(1 << 524_288, -(1 << 524_288), 10**20_000, 1e308, -1e-308, float("nan"), float("inf")),
        *("x" * 65_536, "\ud800" * 65_536, b"x" * 65_536, [0] * 65_536, ["[]"] * 65_536),
        *({str(n): n for n in range(65_536)}, dict.fromkeys(range(20_000)), {10**5000: {1}}),
        *({1.5: 1}, {None: 1}, {True: 1}, {b"a": 1}, {("a",): 1}, {"\ud800": 1}, {"": 1}),
        *(LOOP, CIRCLE, object(), int, len, ..., NotImplemented, iter([]), range(9), 1j, {1}, sys),
    ]


def texts() -> Iterator[str]:
    """Give what a client may send as a token."""
    yield from (
        "",
        "sb1.",
        "sb1." + "A" * 65_532,
        "A" * 1_000_000,
        "\ud800" * 65_536,
        "\0" * 65_536,
    )
    for data in (
        b"\x81" * 48_000,
        b"\xd9\xd9\xf7" * 16_000,
        b"\xa1\x00" * 24_000,
        b"\x9f" * 48_000,
    ):
        for start in (b"", b"\xd0\x83", b"\xd1\x84"):
            yield text_of(start + data)
        for alg in ALGORITHMS:
            yield maker(alg=alg).token(data)
            yield maker(alg=alg).token(payload_of(state=Raw(data)))


class Counter:
    """Makes calls that may raise some errors and no others, and counts them."""

    count = 0

    def call(
        self,
        errors: tuple[type[Exception], ...],
        function: Callable[..., object],
        *arguments: object,
        **named: object,
    ) -> None:
        """Make a call; what it raises beside the allowed errors goes through."""
        with suppress(*errors):
            function(*arguments, **named)
        self.count += 1


def main() -> None:
    """Make every call, and write how many there were."""
    call = (counter := Counter()).call
    here = box()
    documented = (TypeError, ValueError)
    for value in objects():
        call((StateboxError,), here.seal, value, principal=None, request=None)
        for arguments in (value, {"a": value}, {"a": [value, {"b": value}]}):
            call(documented, Request, "tools/call", "t", arguments)
            params = {"name": "t", "arguments": arguments}
            call(documented, Request.from_params, "tools/call", params)
        call(documented, Request, "tools/call", value)
        call(documented, Request.from_params, "tools/call", value)
        for principal in (value, [value], ("iss", value)):
            call((StateboxError, *documented), here.seal, "s", principal=principal, request=None)
        call((OpenError,), here.open, value, principal=None, request=None)
        call((StateboxError,), Keyring.from_jwks, value)
        call((StateboxError,), Keyring.from_jwks, {"keys": [value, {"kid": value}]})
    for alg, token in itertools.product(ALGORITHMS, texts()):
        call((OpenError,), box(alg).open, token, principal="alice", request=REQUEST)
    for text in ("[" * 1_000_000, '{"keys":' * 100_000, "9" * 1_000_000, '"' + "\\u" * 100_000):
        call((StateboxError,), Keyring.from_json, text)
    sys.stdout.write(f"{counter.count} calls\n")


if __name__ == "__main__":
    main()

"""Tokens that are refused before they are authenticated, one for each reason there is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.cases import AUDIENCE, NO_CAP, TTL
from benchmarks.measuring import Call
from statebox import Key, Keyring, OpenError, Statebox
from statebox.envelope import from_text, to_text
from statebox.keys import Revocation
from statebox.state import State

REASONS: Final[dict[str, str | None]] = {
    "valid": None,
    "too large": "too_large",
    "no prefix": "malformed",
    "beyond ASCII": "malformed",
    "a length that is none": "malformed",
    "no base64url": "malformed",
    "a line break at its end": "malformed",
    "another frame": "malformed",
    "cut short": "malformed",
    "random bytes": "malformed",
    "unknown key": "unknown_key",
    "revoked key": "revoked_key",
    "expired key": "expired_key",
    "another tag": "authentication",
}
"""The code that each token is refused with; the valid one is not refused."""


@dataclass(frozen=True)
class Refused:
    """A call that opens a token and gives the code of the error, and the code that it has to give."""

    code: str | None
    call: Call


def rejected_of(alg: str, state: State) -> dict[str, Refused]:
    """Give the calls that open a valid token and every kind of refused one, by reason.

    The tokens are as long as the valid one wherever the reason allows it.
    """
    now = int(time.time())
    active = Key.generate(alg, kid="active", now=now)
    revoked = Key.generate(alg, kid="revoke", now=now - 1)
    expired = Key.generate(alg, kid="expire", now=now - 7200)
    absent = Key.generate(alg, kid="absent", now=now)
    ring = [active, revoked.replace(revoked=Revocation(now)), expired.replace(exp=now - 3600)]
    token = _token_under(active, state)
    message = from_text(token)
    middle = len(token) // 2
    # The cap is met by the valid token, and by what is a little longer than it.
    cap = max(len(token), 256)
    box = Statebox(Keyring(ring), audience=AUDIENCE, ttl=TTL, max_token_chars=cap)
    tokens = {
        "valid": token,
        "too large": token.ljust(cap + 1, "A"),
        "no prefix": "v1.A" + token[4:],
        "beyond ASCII": token[:middle] + "\u00e9" + token[middle + 1 :],
        "a length that is none": token[: len(token) - (len(token) - 1) % 4],
        "no base64url": token[:middle] + "+" + token[middle + 1 :],
        "a line break at its end": token[:-1] + "\n",
        "another frame": to_text(b"\xd2" + message[1:]),
        "cut short": to_text(message[:-1]),
        "random bytes": to_text(b"\x00" + os.urandom(len(message) - 1)),
        "unknown key": _token_under(absent, state),
        "revoked key": _token_under(revoked, state),
        "expired key": _token_under(expired, state),
        "another tag": to_text(message[:-1] + bytes((message[-1] ^ 1,))),
    }
    return {
        reason: Refused(REASONS[reason], _opening(box.open, text))
        for reason, text in tokens.items()
    }


def _token_under(key: Key, state: State) -> str:
    box = Statebox(
        Keyring([key]),
        audience=AUDIENCE,
        ttl=TTL,
        max_token_chars=NO_CAP,
        clock=lambda: max(key.nbf, int(time.time()) - 60),
    )
    return box.seal(state, principal=None, request=None)


def _opening(open_: Callable[..., object], token: str) -> Call:
    call = partial(open_, token, principal=None, request=None)

    def code() -> str | None:
        try:
            call()
        except OpenError as error:
            return error.code
        return None

    return code

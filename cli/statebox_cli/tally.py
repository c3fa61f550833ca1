"""Count tokens by key, verdict, tool and age, in constant memory."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from statebox.claims import decode_payload
from statebox.errors import OpenError
from statebox.keyring import Keyring
from statebox.limits import DEFAULT_LEEWAY, DEFAULT_MAX_ROUNDS
from statebox.sealer import Opened, Sealer
from statebox.state import decode_state
from statebox_cli import foreign, sdk_claims
from statebox_cli.anatomy import take_apart
from statebox_cli.verdict import named

ACCEPTED: Final = "accepted"
NOT_VERIFIED: Final = "not verified"
OTHERS: Final = "(others)"
_NO_KEY: Final = "(none)"
_NO_TOOL: Final = ("(unknown)", "")
_UNBOUND: Final = ("(no request)", "")
_MOST_ROWS: Final = 1000  # of one table: a kid or a tool can be anything that a client writes
_AGES: Final = (
    (0, "ahead of its line"),
    (60, "under 1 min"),
    (600, "under 10 min"),
    (3600, "under 1 h"),
    (86400, "under 1 d"),
    (float("inf"), "1 d and more"),
)
_NO_AGE: Final = "(unknown)"


Rows = Counter[tuple[str, ...]]


class Outcome(NamedTuple):
    """How one token came out.

    Attributes:
        kid: The kid that it names; the format of one of another SDK.
        role: The role of that key; `unknown` where the ring has it not, `-` without a ring.
        verdict: `accepted`, `not verified`, or the code of the error.
        tool: Method and target, where an authentic token is bound to a request.
        age: How old it was, as a range.
    """

    kid: str
    role: str
    verdict: str
    tool: tuple[str, str] = _NO_TOOL
    age: str = _NO_AGE


class Tally:
    """Counts of tokens, and one example for each verdict.

    Args:
        ring: The server's ring; None: nothing is verified.
        audience: The service; None: the audience is not compared.
    """

    def __init__(self, ring: Keyring | None, audience: str | None) -> None:
        self.tokens = 0
        self.keys = Rows()
        self.verdicts = Rows()
        self.tools = Rows()
        self.ages = Rows()
        self.examples: dict[str, str] = {}
        self._ring = ring
        self._sealer = None if ring is None else Sealer(ring)
        self._audience = None if audience is None else audience.encode("utf-8", "surrogateescape")

    def add(self, token: str, when: float) -> None:
        """Judge a token as of a time, and count it.

        Args:
            token: Text that looks like a token.
            when: Seconds since 1970.
        """
        outcome = self._judge(token, when)
        if outcome is None:
            return
        self.tokens += 1
        _count(self.keys, (outcome.kid, outcome.role))
        _count(self.verdicts, (outcome.verdict,))
        _count(self.tools, outcome.tool)
        _count(self.ages, (outcome.age,))
        self.examples.setdefault(outcome.verdict, token)

    def _judge(self, token: str, when: float) -> Outcome | None:
        if not token.startswith("sb1."):
            other = foreign.recognise(token)
            return None if other is None else Outcome(other.format, "-", NOT_VERIFIED)
        if self._ring is None or self._sealer is None:
            anatomy = take_apart(token)
            kid = anatomy.header.kid if anatomy.header else _NO_KEY
            return Outcome(kid, "-", NOT_VERIFIED if anatomy.frame else "malformed")
        try:
            opened = self._sealer.open(token, when)
        except OpenError as error:
            header = take_apart(token).header
            return Outcome(*self._key(header.kid if header else _NO_KEY, when), error.code)
        return self._authentic(opened, self._ring, when)

    def _key(self, kid: str, when: float) -> tuple[str, str]:
        key = None if self._ring is None else self._ring.get(kid)
        return kid, "unknown" if key is None or self._ring is None else self._ring.role(key, when)

    def _authentic(self, opened: Opened, ring: Keyring, when: float) -> Outcome:
        payload, slot, _ = opened
        key = (slot.key.kid, ring.role(slot.key, when))
        try:
            claims = decode_payload(payload)
            decode_state(claims.state)
        except ValueError:
            sdk = sdk_claims.read(payload)
            if sdk is None:
                return Outcome(*key, "malformed")
            audience, tool = (sdk.audience or "").encode(), (sdk.method, sdk.target)
            issued_at, expires_at, round_ = sdk.issued_at, sdk.expires_at, 0
        else:
            audience, issued_at = claims.audience, claims.issued_at
            # Of the flow's deadline nothing is to be asked: no exp lies behind it.
            expires_at, round_ = claims.expires_at, claims.round
            tool = _UNBOUND if claims.request is None else named(claims.request)
        if self._audience not in (None, audience):
            verdict = "audience"
        elif issued_at > when + DEFAULT_LEEWAY:
            verdict = "issued_in_future"
        elif when >= expires_at:
            verdict = "expired"
        else:
            verdict = ACCEPTED if round_ <= DEFAULT_MAX_ROUNDS else "too_many_rounds"
        return Outcome(*key, verdict, tool, _age(when - issued_at))


def _age(seconds: float) -> str:
    return next(name for limit, name in _AGES if seconds < limit or limit == float("inf"))


def _count(table: Rows, row: tuple[str, ...]) -> None:
    if row not in table and len(table) >= _MOST_ROWS:
        row = (OTHERS, *[""] * (len(row) - 1))
    table[row] += 1

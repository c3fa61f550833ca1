"""`statebox keys check`: for cron and deploy pipelines, whether a ring will hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import click

from statebox.errors import KeyringError
from statebox.keyring import Keyring
from statebox.keys import A256GCM, Key
from statebox_cli import options, output
from statebox_cli.keys_lifetimes import LEEWAY, active, end_of, lagging, sealing, spans
from statebox_cli.keys_store import store_of
from statebox_cli.output import Command, Problem, counted
from statebox_cli.times import both, relative, span

Status = Literal["pass", "fail", "skipped"]

GCM_BOUND: Final = 2**32  # SP 800-38D §8.3: seals under one key with random nonces
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MARKS: Final = {"pass": "pass", "fail": "FAIL", "skipped": "-"}
_COLOURS: Final = {"pass": "green", "fail": "red", "skipped": "bright_black"}
_ROTATE: Final = "Run `statebox keys rotate`."
_SET_CLOCK: Final = "Set the clock of this machine; by a wrong one nothing else here holds."


class Finding(NamedTuple):
    """How one check came out.

    Attributes:
        name: What was checked.
        status: How it came out.
        detail: The facts, in a few words.
        code: For one that failed: `keyring`, or `refused` where live tokens will be rejected.
    """

    name: str
    status: Status
    detail: str
    code: str | None = None


class Limits(NamedTuple):
    """What a ring is checked against.

    Attributes:
        within: How far to look ahead, in seconds.
        max_age: For how long one key may seal, in seconds; None: no limit.
        rate: Tokens a second, over all replicas; None: not known.
    """

    within: int
    max_age: int | None
    rate: float | None


def rate_of(value: str | float) -> float:
    """Read how many tokens are sealed: `50/s`, `3000/m`, `2e6/d`; a bare number is per second.

    Raises:
        click.BadParameter: It is not of this form.
    """
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)(?:/([smhd]))?", str(value).strip(), re.ASCII)
    try:
        if match is None:
            raise ValueError
        return float(match[1]) / _SECONDS[match[2] or "s"]
    except ValueError:
        raise click.BadParameter("that is not a rate; write 50/s, 3000/m or 2e6/d") from None


@click.command(cls=Command, blank={"keyring": None, "at": None, "checks": []})
@options.keyring_option(required=True)
@click.option(
    "--max-age",
    type=options.duration,
    metavar="DURATION",
    help="Fail if the key that seals is older.",
)
@click.option(
    "--within",
    type=options.duration,
    default=86400,
    metavar="DURATION",
    help="How far to look ahead.  [1d]",
)
@click.option(
    "--rate",
    type=rate_of,
    metavar="N/s",
    help="Tokens sealed on all replicas together, to reckon the use of AES-GCM.",
)
@options.at_option
@options.json_option
def check(
    keyring: str,
    max_age: int | None,
    within: int,
    rate: float | None,
    at: float | None,
    as_json: bool,
) -> None:
    """Check that a ring is sound, and stays so for a while.

    Exit code 8: unreadable, open to others, no active key, a key in use for too
    long. 9: live tokens are going to be rejected.
    """
    now = int(options.moment(at))
    store = store_of(keyring)
    try:
        ring = store.read()
    except KeyringError as error:
        findings = [Finding("readable", "fail", error.message, error.code)]
        hint = error.hint
    else:
        limits = Limits(within, max_age, rate)
        findings = list(examined(ring, now, limits, clock=options.moment(None)))
        hint = _ROTATE
    failed = [finding for finding in findings if finding.status == "fail"]
    # One ring may have both kinds; unsafe now comes before unsafe later.
    worst = min(failed, key=lambda finding: finding.code or "", default=None)
    if worst is not None and worst.name == "clock":
        hint = _SET_CLOCK
    problem = None if worst is None else Problem(worst.code or "", worst.detail, hint)
    data: dict[str, Any] = {
        "keyring": store.name,
        "at": now,
        "checks": [
            {"name": finding.name, "status": finding.status, "detail": finding.detail}
            for finding in findings
        ],
        "error": None if problem is None else problem._asdict(),
    }
    lines = [
        f"{output.styled(f'{_MARKS[found.status]:4}', fg=_COLOURS[found.status])}  "
        f"{found.name:10}{found.detail}"
        for found in findings
    ]
    output.emit(data, "\n".join(lines), as_json=as_json)
    if problem is not None:
        output.note(problem.message, problem.hint)
        raise click.exceptions.Exit(problem.exit_code)


def examined(
    ring: Keyring, now: float, limits: Limits, *, clock: float | None = None
) -> Iterator[Finding]:
    """Make every check of a ring that could be read.

    Args:
        ring: The ring.
        now: Seconds since 1970.
        limits: What it is checked against.
        clock: What the clock of this machine says, if *now* is another time.

    Yields:
        How each came out.
    """
    yield Finding("readable", "pass", f"{counted(len(ring), 'key')}, private, well-formed")
    yield _clock(ring, now if clock is None else clock)
    yield _active(ring, now)
    yield _age(ring, now, limits)
    yield _successor(ring, now, limits)
    yield _endings(ring, now, limits)
    yield _endless(ring, now)
    yield _gcm(ring, now, limits)


def _clock(ring: Keyring, now: float) -> Finding:
    late = lagging(ring, now)
    if late is not None:
        detail = f"this clock is behind: {late[0].kid} was changed {relative(late[1], now)}"
        return Finding("clock", "fail", detail, "keyring")
    return Finding("clock", "pass", "no key was made or revoked after now")


def _active(ring: Keyring, now: float) -> Finding:
    key = active(ring, now)
    if key is None:
        return Finding("active", "fail", "no key is active: nothing can be sealed", "keyring")
    return Finding("active", "pass", f"{key.kid} seals")


def _age(ring: Keyring, now: float, limits: Limits) -> Finding:
    key = active(ring, now)
    if limits.max_age is None or key is None:
        return Finding("age", "skipped", "give --max-age" if key else "no key is active")
    # As `list` shows it. A key that was made here begins a minute before it was made.
    age = now - (key.nbf if key.iat is None else key.iat)
    detail = f"{key.kid} is {span(age)} old, the limit is {span(limits.max_age)}"
    pending = next((other for other in ring if ring.role(other, now) == "pending"), None)
    if age <= limits.max_age:
        return Finding("age", "pass", detail)
    if pending is not None:
        detail += f"; {pending.kid} takes over {relative(pending.nbf, now)}"
        return Finding("age", "pass", detail)
    return Finding("age", "fail", detail, "keyring")


def _successor(ring: Keyring, now: float, limits: Limits) -> Finding:
    until = now + limits.within
    for gap in spans(ring):
        if gap.kid is None and now < gap.start <= until:
            detail = f"no key seals from {both(gap.start, now)}"
            return Finding("successor", "fail", detail, "refused")
    if active(ring, now) is None:
        return Finding("successor", "skipped", "no key is active")
    detail = f"some key seals at all times for the next {span(limits.within)} (--within)"
    return Finding("successor", "pass", detail)


def _endings(ring: Keyring, now: float, limits: Limits) -> Finding:
    for key in ring:
        reign = sealing(ring, key)
        if reign is None or not now < end_of(key) <= now + limits.within:
            continue
        needed = reign[1] + ring.max_ttl + LEEWAY
        if end_of(key) < needed:
            detail = (
                f"{key.kid} ends {both(end_of(key), now)}, "
                f"{span(needed - end_of(key))} before the last of its tokens"
            )
            return Finding("endings", "fail", detail, "refused")
    return Finding("endings", "pass", "no key ends before its tokens do")


def _endless(ring: Keyring, now: float) -> Finding:
    kids = [key.kid for key in ring if key.exp is None and ring.role(key, now) == "verifying"]
    if kids:
        detail = f"{', '.join(kids)} would open for ever; the next rotation gives an end"
        return Finding("endless", "fail", detail, "keyring")
    return Finding("endless", "pass", "every key that was taken over from has an end")


def _begun(key: Key) -> int:
    # Its nbf alone says too little: a key that was promoted had perhaps sealed long before.
    return key.nbf if key.iat is None else min(key.iat, key.nbf)


def _gcm(ring: Keyring, now: float, limits: Limits) -> Finding:
    if limits.rate is None:
        return Finding("gcm", "skipped", "give --rate")
    worst = 0.0
    for key in ring:
        reign = sealing(ring, key)
        if key.alg != A256GCM or reign is None or reign[1] <= now:
            continue
        begun = _begun(key) if key.nbf <= now else reign[0]
        seconds = min(reign[1], now + limits.within) - begun
        uses = max(seconds, 0.0) * limits.rate
        if uses >= GCM_BOUND:
            reached = begun + GCM_BOUND / limits.rate
            detail = f"{key.kid} reaches 2^32 seals {both(reached, now)}"
            return Finding("gcm", "fail", detail, "keyring")
        worst = max(worst, uses)
    detail = f"at most {worst / GCM_BOUND:.2%} of 2^32 seals under one key"
    return Finding("gcm", "pass", f"{detail}, {span(limits.within)} from now")

"""A report as a person reads it: one screen of 80 columns, and at its end why, and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from statebox_cli.cbor_text import state_text
from statebox_cli.find import WHOLE, Found
from statebox_cli.judging import Check
from statebox_cli.output import WIDTH, lowered, printable, styled
from statebox_cli.report import Report
from statebox_cli.times import both

_LABEL: Final = 17  # columns
_MARKS: Final = {"pass": "pass  ", "fail": "FAIL  ", "skipped": "-     "}
_COLOURS: Final = {"pass": "green", "fail": "red", "skipped": "bright_black"}
_LONGEST_STATE: Final = 1000  # characters on a screen; --json has all of it
_TIMES: Final = ("issued_at", "expires_at", "deadline")


def of_one(report: Report, found: Found, now: float, *, show_state: bool) -> str:
    """Write the report of one token.

    Args:
        report: The report.
        found: Where the token was found.
        now: The moment of judging, in seconds since 1970.
        show_state: Whether the state was asked for.

    Returns:
        Lines of 80 columns at most, without a line break at the end.
    """
    sections = [_head(report, found), _checks(report)]
    if report.verified is None and report.verdict.claims is not None:
        sections.append(_claims(report.verdict.claims, now))
    if show_state:
        sections.append(_state(report))
    sections.append(_conclusion(report))
    return "\n\n".join("\n".join(section) for section in map(list, sections) if section)


def of_many(reports: list[tuple[Report, Found]]) -> str:
    """Write one line for each of several tokens, and how to see one of them."""
    lines = [f"{len(reports)} requestStates; --pick N shows one of them"]
    for number, (report, found) in enumerate(reports, start=1):
        kid = report.token["kid"] or report.token["format"]
        lines += _row(f"{number}", f"{found.where}: {printable(kid)}, {_outcome(report)}", 4)
    return "\n".join(lines)


def _outcome(report: Report) -> str:
    if report.problem is not None:
        return f"{report.problem.code}: {lowered(report.problem.message)}"
    return "not verified" if report.verified is None else "accepted"


def _head(report: Report, found: Found) -> Iterator[str]:
    token = report.token
    title = f"{report.name[:1].upper()}{report.name[1:]}"
    title += f" ({token['alg']})" if token["alg"] else ""
    title += f", kid {token['kid']}" if token["kid"] else ""
    yield from (styled(line, bold=True) for line in textwrap.wrap(printable(title), WIDTH))
    if found.where != WHOLE:
        yield from _row("found", found.where)
    if found.damage:
        yield from _row("mended", ", ".join(found.damage))
    if token["id"]:
        yield from _row("id", token["id"])
    if token["bytes"] is not None:
        parts = ", ".join(f"{name} {length}" for name, length in report.parts.items())
        yield from _row("bytes", f"{token['bytes']}{f': {parts}' if parts else ''}")


def _checks(report: Report) -> Iterator[str]:
    waiting: dict[str, list[str]] = {}
    for check in report.verdict.checks:
        if check.status == "skipped" and check.hint is None:
            waiting.setdefault(check.detail, []).append(_title(check))
        else:
            yield from _check(check)
    for reason, names in waiting.items():
        text = f"{', '.join(names)}: {reason}"
        yield from _row(_MARKS["skipped"], text, 8, colour=_COLOURS["skipped"])


def _check(check: Check) -> Iterator[str]:
    lines = _row(f"{_MARKS[check.status]}{_title(check)}", check.detail, _LABEL + 6)
    first, *rest = lines
    mark = first[2:8]
    yield first.replace(mark, styled(mark, fg=_COLOURS[check.status]), 1)
    yield from rest


def _title(check: Check) -> str:
    return check.name.replace("_", " ")


def _claims(claims: dict[str, Any], now: float) -> Iterator[str]:
    yield styled("UNVERIFIED: what it says of itself, and anybody can say so", fg="yellow")
    for name, value in claims.items():
        label = name.replace("_", " ")
        if value is None:
            text = "none"
        elif name in _TIMES:
            text = both(value, now)
        elif name == "request":
            text = f"{value['method']} {value['target']}"
        elif name == "principal_bound":
            label, text = "principal", "bound to one" if value else "bound to nobody"
        else:
            text = str(value)
        yield from _row(label, text)


def _state(report: Report) -> Iterator[str]:
    if not report.verdict.has_state:
        yield "State: not readable without its key"
        return
    known = "State" if report.verified is not None else styled("State, UNVERIFIED", fg="yellow")
    text = state_text(report.verdict.state)
    if len(text) > _LONGEST_STATE:
        text = f"{text[:_LONGEST_STATE]} ... {len(text) - _LONGEST_STATE} more, see --json"
    yield f"{known}:"
    yield from textwrap.wrap(printable(text), WIDTH, initial_indent="  ", subsequent_indent="  ")


def _conclusion(report: Report) -> Iterator[str]:
    problem = report.problem
    if problem is not None:
        hint = lowered(problem.hint.removesuffix("."))
        text, colour = f"Rejected ({problem.code}): {lowered(problem.message)}; {hint}.", "red"
    elif report.verified is None:
        option = "--keyring" if report.token["format"] == "sb1" else "--sdk-key-file"
        text = f"UNVERIFIED: nothing here is authenticated; give {option} to get a verdict."
        colour = "yellow"
    else:
        text, colour = "Accepted: every check that was made holds", "green"
        skipped = [check for check in report.verdict.checks if check.status == "skipped"]
        options = ", ".join(check.hint for check in skipped if check.hint)
        text += f"; for the rest give {options}." if options else "."
    for line in textwrap.wrap(printable(text), WIDTH):
        yield styled(line, fg=colour, bold=True)


def _row(label: str, text: str, width: int = _LABEL, *, colour: str | None = None) -> list[str]:
    lines = textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=f"  {label:<{width - 2}}",
        subsequent_indent=" " * width,
    )
    return [styled(line, fg=colour) if colour else line for line in lines] or [f"  {label}"]

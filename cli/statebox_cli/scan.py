"""`statebox scan`: what the tokens in a log of any size came to."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from statebox_cli import inputs, options, output
from statebox_cli.output import Command, InputError, counted, printable
from statebox_cli.sieve import hits_in
from statebox_cli.tally import Tally

_HELP: Final = """Sum up the requestStates in logs: by key, verdict, tool and age.

Reads files, or stdin, as a stream of any size. Each token is judged as of the time at the start of
its line (ISO 8601, UTC where it names no zone; or seconds since 1970), where a line has none as of
now, and with --at all of them as of then. Who presented a token and with what request is not
compared; `statebox inspect` does that. Without --keyring nothing is verified.

No token is printed, unless --show-tokens asks for one example of each verdict.

\b
Examples:
  statebox scan server.log --keyring keyring.json --audience billing
  zcat old/*.gz | statebox scan - --keyring keyring.json --csv
  statebox scan a.log b.log --keyring keyring.json --json --show-tokens
"""

BLANK: Final[dict[str, object]] = {
    "tokens": 0,
    "bytes": 0,
    "by_key": [],
    "by_verdict": [],
    "by_tool": [],
    "by_age": [],
}
"""The members of `--json`, as they are where there is nothing to say but an error."""

_WIDEST: Final = 64  # columns of a name
_COLUMNS: Final = {
    "by_key": ("kid", "role"),
    "by_verdict": ("verdict",),
    "by_tool": ("method", "target"),
    "by_age": ("age",),
}


@click.command(cls=Command, blank=BLANK, help=_HELP, short_help=_HELP.partition(":")[0] + ".")
@click.argument("files", nargs=-1, metavar="FILE... | -")
@options.keyring_option(required=False)
@options.audience_option(required=False)
@options.at_option
@click.option("--show-tokens", is_flag=True, help="Print an example of each verdict.")
@click.option("--csv", "as_csv", is_flag=True, help="Print rows: by, what, detail, tokens.")
@options.json_option
def scan(
    files: tuple[str, ...],
    keyring: str | None,
    audience: str | None,
    at: float | None,
    show_tokens: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Sum up the requestStates in logs."""
    if as_csv and as_json:
        raise InputError("--csv and --json contradict each other")
    files = files or (inputs.stdin_for("file", "Name files, or - for stdin."),)
    tally = Tally(None if keyring is None else inputs.load_keyring(keyring), audience)
    now = options.moment(at)
    size = 0
    with _progress(files) as progress:
        for name, stream in _streams(files):
            first = size

            def count(block: bytes) -> None:
                nonlocal size
                if size == first:  # noqa: B023 - called within this turn
                    inputs.require_plain(name, block, "scan")  # noqa: B023
                size += len(block)
                progress(len(block))

            for token, when in hits_in(stream, count):
                tally.add(token, now if at is not None or when is None else when)
    if not tally.tokens:
        output.note(
            "no requestState was found",
            "what is compressed or encoded has to be unpacked first; `inspect` reads HAR files",
        )
    data = _summary(tally, size, show_tokens=show_tokens)
    text = _as_csv(data) if as_csv else _as_text(data, show_tokens=show_tokens)
    output.emit(data, text, as_json=as_json)


def _streams(files: Sequence[str]) -> Iterator[tuple[str, BinaryIO]]:
    for name in files:
        if name == "-":
            yield name, sys.stdin.buffer
            continue
        if not name:
            raise InputError("the name of a file is empty")
        try:
            with Path(name).open("rb") as stream:
                yield name, stream
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror}") from None


@contextmanager
def _progress(files: Sequence[str]) -> Generator[Callable[[int], object]]:
    # Of stdin nobody knows the size; and no bar anywhere but on a terminal.
    if "-" in files or not sys.stderr.isatty():
        yield lambda _: None
        return
    total = sum(path.stat().st_size for path in map(Path, files) if path.exists())
    with click.progressbar(length=total, label="scanning", file=sys.stderr, width=0) as bar:
        yield bar.update


def _summary(tally: Tally, size: int, *, show_tokens: bool) -> dict[str, Any]:
    def rows(table: str, counts: Counter[tuple[str, ...]]) -> list[dict[str, Any]]:
        names = _COLUMNS[table]
        ordered = counts.most_common()
        return [{**dict(zip(names, row, strict=True)), "tokens": n} for row, n in ordered]

    verdicts = rows("by_verdict", tally.verdicts)
    if show_tokens:
        for row in verdicts:
            row["example"] = tally.examples.get(row["verdict"])
    return {
        "tokens": tally.tokens,
        "bytes": size,
        "by_key": rows("by_key", tally.keys),
        "by_verdict": verdicts,
        "by_tool": rows("by_tool", tally.tools),
        "by_age": rows("by_age", tally.ages),
    }


def _as_text(data: dict[str, Any], *, show_tokens: bool) -> str:
    lines = [f"{counted(data['tokens'], 'requestState')} in {counted(data['bytes'], 'byte')}"]
    for table, names in _COLUMNS.items():
        if not data[table]:
            continue
        lines += ["", table.replace("_", " ")]
        for row in data[table]:
            what = printable(" ".join(row[name] for name in names))
            what = what if len(what) <= _WIDEST else f"{what[: _WIDEST - 3]}..."
            lines.append(f"  {what:<{_WIDEST}} {row['tokens']:>12,}")
    if show_tokens:
        for row in data["by_verdict"]:
            lines += ["", f"example: {row['verdict']}", row["example"] or ""]
    return "\n".join(lines)


def _as_csv(data: dict[str, Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("by", "what", "detail", "tokens", "example"))
    for table, names in _COLUMNS.items():
        for row in data[table]:
            what, detail = ([row[name] for name in names] + [""])[:2]
            by = table.removeprefix("by_")
            writer.writerow((by, _cell(what), _cell(detail), row["tokens"], row.get("example")))
    return out.getvalue().rstrip("\n")


def _cell(text: str) -> str:
    # A spreadsheet runs a cell that begins like a formula, and a client writes tools' names.
    shown = printable(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) and len(shown) > 1 else shown

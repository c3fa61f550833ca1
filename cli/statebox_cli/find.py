"""Find the requestStates in what a person has: a message, a capture, a log, or just a token.

Each is found with a sentence that says where, and with the JSON-RPC request it came with if that
was beside it. A value that stands in a message is taken as it is; text that was pasted is mended.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from statebox_cli.anatomy import is_cut_short, is_whole
from statebox_cli.mend import mend, without_line_end

WHOLE: Final = "the whole input"
MEMBERS: Final = ("requestState", "request_state")
_NO_STRING: Final = (dict, list, bool, int, float)
_DEEPEST: Final = 4  # JSON within a string within JSON, as a HAR file within a log has it

_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9_.=-])(?:sb1|rs1|rs2|v1)\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,2}"
    r"(?:(?:\u2026|\.\.\.)[A-Za-z0-9_-]*)?"  # as whatever shortens it for a screen leaves it
)
# A member in any quoting: JSON, JSON in a string, logfmt, Python's repr.
_MEMBER: Final = re.compile(
    r"""request_?state\\*["']?\s*[:=]\s*\\*["']?([^\s"'\\,;&}]{8,})""", re.IGNORECASE
)
_HTTP: Final = re.compile(r"(?:[A-Z]{3,7} \S+ )?HTTP/[0-9.]+(?: [0-9]{3}[^\n]*)?\r?\n")
_CONTINUED: Final = re.compile(r"[>|\s]*([A-Za-z0-9_-]+)[\"',\s]*")
_MOST_STARTS: Final = 20  # of JSON in one line
_MOST_LINES: Final = 2000  # of one wrapped token


class Call(NamedTuple):
    """The request beside a token.

    Attributes:
        method: The JSON-RPC method.
        params: Its params.
    """

    method: str
    params: dict[str, Any]


class Found(NamedTuple):
    """A requestState, and how it was found.

    Attributes:
        text: Its text; mended where it was pasted.
        where: Where it stood, as a few words.
        damage: What was undone, or could not be.
        call: The JSON-RPC request it was sent with, if that stood beside it.
    """

    text: str
    where: str
    damage: tuple[str, ...] = ()
    call: Call | None = None


def find(data: bytes) -> list[Found]:
    """Find every requestState in a text.

    Args:
        data: A token, a JSON-RPC message, an HTTP message, SSE frames, a log, a HAR file.

    Returns:
        What was found, in its order: each text once with each request that it came with, or once
        where it came with none. Where nothing looks like a token and the text is one word, that
        word.
    """
    text = without_line_end(_decode(data))
    pasted = mend(text)
    if is_whole(pasted.text) or _TOKEN.fullmatch(pasted.text):
        return [Found(pasted.text, WHOLE, pasted.damage)]
    founds = _each_once(_in_text(text, _DEEPEST))
    if not founds and pasted.text and not re.search(r"\s", text.strip()) and "{" not in text:
        return [Found(pasted.text, WHOLE, pasted.damage)]
    return founds


def _each_once(founds: Iterator[Found]) -> list[Found]:
    # One token may come with several requests, and each has a verdict of its own. The answer that
    # it stood in first says nothing of them.
    seen: dict[tuple[str, str | None], Found] = {}
    keys: dict[int, tuple[Call, str]] = {}  # a call is kept, so that no other gets its id
    for found in founds:
        call = found.call
        if call is not None and id(call) not in keys:
            keys[id(call)] = (call, _key_of(call))
        # A path is made of names that a client chose.
        where = found.where if len(found.where) <= 200 else f"{found.where[:197]}..."
        key = (found.text, None if call is None else keys[id(call)][1])
        seen.setdefault(key, found._replace(where=where))
    called = {text for text, key in seen if key is not None}
    return [found for (text, key), found in seen.items() if key is not None or text not in called]


def _key_of(call: Call) -> str:
    try:
        return hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()
    except RecursionError:  # as deep as the parser goes; the same only as itself
        return str(id(call))


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # what a Windows PowerShell writes
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _in_text(text: str, room: int) -> Iterator[Found]:
    try:
        yield from _in_json(json.loads(text), room)
    except (ValueError, RecursionError):
        if _HTTP.match(text):
            head, _, body = text.replace("\r\n", "\n").partition("\n\n")
            kind = "response" if head.startswith("HTTP/") else "request"
            yield from _labelled(f"the body of an HTTP {kind}", _in_text(body, room))
        else:
            yield from _in_lines(text, room)


def _labelled(label: str, founds: Iterator[Found]) -> Iterator[Found]:
    for found in founds:
        yield found._replace(where=f"{label}: {found.where}")


def _in_json(value: object, room: int) -> Iterator[Found]:
    if isinstance(value, str):
        yield Found(value, "a JSON string")
        return
    if isinstance(value, dict) and _is_har(cast("dict[str, Any]", value)):
        yield from _in_har(cast("dict[str, Any]", value), room)
        return
    # A stack, not a recursion: the depth is the sender's.
    stack: list[tuple[object, str, Call | None]] = [(value, "", None)]
    while stack:
        item, path, call = stack.pop()
        if isinstance(item, dict):
            members = cast("dict[str, object]", item)
            call = call_of(members) or call
            stack.extend(
                (member, f"{path}.{name}" if path else name, call)
                for name, member in reversed(members.items())
            )
        elif isinstance(item, list):
            items = cast("list[object]", item)
            stack.extend((each, f"{path}[{i}]", call) for i, each in reversed([*enumerate(items)]))
        elif isinstance(item, str):
            yield from _in_string(item, path, call, room)
        if path.rpartition(".")[2] in MEMBERS and isinstance(item, _NO_STRING):
            yield Found(json.dumps(item), f"{path}, which is no string", (), call)


def _in_string(text: str, path: str, call: Call | None, room: int) -> Iterator[Found]:
    if path.rpartition(".")[2] in MEMBERS:
        kind = "JSON-RPC request" if call else "JSON-RPC response" if "result." in path else "JSON"
        yield Found(text, f"{path} of a {kind}".replace("a JSON", "JSON", kind == "JSON"), (), call)
    elif _TOKEN.search(text) or any(name in text for name in MEMBERS):
        inside = _in_text(text, room - 1) if room > 0 else _in_words([text], 0)
        yield from _labelled(path, inside)


def call_of(message: object) -> Call | None:
    """Read a JSON-RPC request; None if a message is not one."""
    if not isinstance(message, dict):
        return None
    members = cast("dict[str, object]", message)
    method, params = members.get("method"), members.get("params", {})
    if isinstance(method, str) and isinstance(params, dict):
        return Call(method, cast("dict[str, Any]", params))
    return None


def _is_har(members: dict[str, Any]) -> bool:
    log: object = members.get("log")
    return isinstance(log, dict) and isinstance(cast("dict[str, Any]", log).get("entries"), list)


def _in_har(har: dict[str, Any], room: int) -> Iterator[Found]:
    for number, entry in enumerate(har["log"]["entries"], start=1):
        for kind, *path in (("request", "postData"), ("response", "content")):
            body: object = entry
            for name in (kind, *path):
                body = cast("dict[str, Any]", body).get(name) if isinstance(body, dict) else None
            if isinstance(body, dict):
                text = _har_text(cast("dict[str, Any]", body))
                label = f"HAR entry {number}, {kind}"
                yield from _labelled(label, _in_text(text, room - 1))


def _har_text(body: dict[str, Any]) -> str:
    text: object = body.get("text")
    if not isinstance(text, str):
        return ""
    if body.get("encoding") == "base64":
        try:
            return _decode(base64.b64decode(text))
        except ValueError:
            return ""
    return text


def _in_lines(text: str, room: int) -> Iterator[Found]:
    lines = text.split("\n")
    event: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("data:"):
            event.append(line[5:].removeprefix(" ").rstrip("\r"))
            continue
        yield from _in_event(event, number - 1, room)
        event = []
        if _TOKEN.search(line) or _MEMBER.search(line):
            yield from _labelled(f"line {number}", _in_line(lines, number - 1, room))
    yield from _in_event(event, len(lines), room)


def _in_event(event: list[str], last_line: int, room: int) -> Iterator[Found]:
    # HTML, "Server-sent events": the data of one event is its lines, joined by line breaks.
    if event and room > 0:
        label = f"an SSE event (line {last_line - len(event) + 1})"
        yield from _labelled(label, _in_text("\n".join(event), room - 1))


def _in_line(lines: list[str], index: int, room: int) -> Iterator[Found]:
    line = lines[index]
    starts = [match.start() for match in re.finditer(r"[{\[]", line)]
    end = 0
    for start in starts[:_MOST_STARTS]:
        if start < end:  # within what was looked through
            continue
        try:
            value, end = json.JSONDecoder().raw_decode(line, start)
        except (ValueError, RecursionError):
            continue
        founds = list(_in_json(value, room - 1)) if room > 0 else []
        if founds:
            yield from founds
            return
    yield from _in_words(lines, index)


def _in_words(lines: list[str], index: int) -> Iterator[Found]:
    line = lines[index]
    matches = [(match[1], "a requestState") for match in _MEMBER.finditer(line)]
    matches = matches or [(match[0], "a token") for match in _TOKEN.finditer(line)]
    for text, what in matches:
        whole, wraps = _joined(text, lines, index)
        mended = mend(whole)
        yield Found(mended.text, what, wraps + mended.damage)


def _joined(text: str, lines: list[str], index: int) -> tuple[str, tuple[str, ...]]:
    # A token that a mail program or a terminal broke goes on in the lines below.
    if not lines[index].rstrip().endswith(text) or not is_cut_short(text):
        return text, ()
    longer = text
    for line in lines[index + 1 : index + _MOST_LINES]:
        match = _CONTINUED.fullmatch(line)
        if match is None:
            break
        longer += match[1]
        if is_whole(longer):
            return longer, ("line wraps",)
    return text, ()

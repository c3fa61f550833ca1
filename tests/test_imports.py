"""The rooms of the house, read from the source: who may import whom, what may come from outside.

A new module fails here until it has a floor, a new dependency until it has a line in OUTSIDE.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Arrows point down: a module imports from the floors above its own line, never from its own floor.
# A package (statebox.mcp, statebox_cli) is one room; what its files do among themselves is theirs,
# as long as it is no circle.
FLOORS = (
    {"statebox.errors", "statebox.cbor"},
    {"statebox.keys", "statebox.files", "statebox.events", "statebox.state"},
    {"statebox.jwk", "statebox.bindings", "statebox.envelope", "statebox.claims"},
    {"statebox.keyring", "statebox.continuation"},
    {"statebox.sources", "statebox.replay", "statebox.limits", "statebox.reports"},
    {"statebox.sealer"},
    {"statebox.checks"},
    {"statebox.box"},
    {"statebox"},
    {"statebox.mcp", "statebox.otel", "statebox.testing"},
    {"statebox_cli"},
    {"statebox.__main__"},  # `python -m statebox` hands over to the command; nothing imports it
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# What a room does not know although it lies further down.
STRANGERS = {
    "statebox.envelope": {"time", "datetime", "statebox.files"},
    "statebox.claims": {"time", "datetime", "statebox.files", "statebox.keys"},
}

# What is neither ours nor Python's, and the rooms that may import it at the top of a file ...
OUTSIDE = {
    "cryptography": {"statebox", "statebox_cli"},
    "cbor2": {"statebox", "statebox_cli"},
    "click": {"statebox_cli"},
    "rich": {"statebox_cli"},
    "mcp": {"statebox.mcp", "statebox_cli"},
    "mcp_types": {"statebox.mcp", "statebox_cli"},
    "fastmcp": {"statebox.mcp"},
    "pydantic": {"statebox.mcp", "statebox_cli"},
    "anyio": {"statebox.mcp", "statebox_cli"},
    "httpx2": {"statebox.mcp", "statebox_cli"},
    "starlette": {"statebox.mcp", "statebox_cli"},
    "uvicorn": {"statebox.mcp", "statebox_cli"},
    "opentelemetry": {"statebox.otel"},
    "jwt": set[str](),
    "redis": set[str](),
}
# ... and what any room may import inside a function, where an optional part is asked for.
INSIDE_A_FUNCTION = {"jwt", "redis"}

FILE_LIMIT = 320
FUNCTION_LIMIT = 55

SOURCES = sorted([*ROOT.glob("statebox/**/*.py"), *ROOT.glob("cli/statebox_cli/**/*.py")])
every_source = pytest.mark.parametrize(
    "path", SOURCES, ids=[path.relative_to(ROOT).as_posix() for path in SOURCES]
)


@dataclass(frozen=True)
class Import:
    """One imported module, and whether the import runs when the file is imported."""

    module: str
    line: int
    at_the_top: bool


def module_of(path: Path) -> str:
    """Return the dotted name of a source file."""
    inside = path.relative_to(ROOT / "cli" if path.is_relative_to(ROOT / "cli") else ROOT)
    parts = inside.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in SOURCES}


def room_of(module: str) -> str:
    """Return the room of one of our modules: its package under statebox, or statebox_cli."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "statebox" else parts[0]


def floor_of(room: str) -> int:
    """Return the floor of a room; a test that asks for the floor of a new room fails here."""
    assert room in FLOOR_OF, f"{room} is new: give it a floor in FLOORS of tests/test_imports.py"
    return FLOOR_OF[room]


def names_of(statement: ast.Import | ast.ImportFrom, importer: Path) -> Iterator[str]:
    """Yield the dotted names that one import statement loads."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    package = module_of(importer).split(".")
    if importer.name != "__init__.py":
        package.pop()
    base = package[: len(package) - statement.level + 1] if statement.level else []
    source = ".".join([*base, *([statement.module] if statement.module else [])])
    for alias in statement.names:
        submodule = f"{source}.{alias.name}"
        yield submodule if submodule in MODULES else source


def imports_of(path: Path) -> list[Import]:
    """Return every import of a file, those inside functions and under TYPE_CHECKING too."""
    found: list[Import] = []

    def visit(node: ast.AST, *, at_the_top: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.extend(Import(name, node.lineno, at_the_top) for name in names_of(node, path))
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        for child in ast.iter_child_nodes(node):
            visit(child, at_the_top=at_the_top and not lazy)

    visit(ast.parse(path.read_text("utf-8")), at_the_top=True)
    return found


def is_ours(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in {"statebox", "statebox_cli"}


def test_there_is_a_library_and_a_command_line_to_look_at() -> None:
    assert {"statebox", "statebox.box", "statebox_cli.main"} <= MODULES


@every_source
def test_arrows_point_down(path: Path) -> None:
    room = room_of(module_of(path))
    floor = floor_of(room)
    wrong = [
        f"{path.name}:{found.line} imports {found.module}"
        for found in imports_of(path)
        if is_ours(found.module)
        and room_of(found.module) != room
        and floor_of(room_of(found.module)) >= floor
    ]
    assert wrong == [], (
        f"{room} may import only from lower floors (FLOORS of tests/test_imports.py)"
    )


def test_no_circle_inside_a_room() -> None:
    arrows = {
        module_of(path): {
            found.module for found in imports_of(path) if found.at_the_top and is_ours(found.module)
        }
        for path in SOURCES
    }
    while leaves := {module for module, targets in arrows.items() if not targets & arrows.keys()}:
        arrows = {module: t for module, t in arrows.items() if module not in leaves}
    assert sorted(arrows) == [], "these modules import each other in a circle, or stand above one"


@every_source
def test_a_room_does_not_know_its_strangers(path: Path) -> None:
    strangers = STRANGERS.get(room_of(module_of(path)), set())
    met = [
        f"{path.name}:{found.line} imports {found.module}"
        for found in imports_of(path)
        if found.module in strangers or found.module.split(".")[0] in strangers
    ]
    assert met == []


@every_source
def test_what_comes_from_outside_is_imported_only_where_it_belongs(path: Path) -> None:
    room = room_of(module_of(path))
    wrong: list[str] = []
    for found in imports_of(path):
        name = found.module.split(".")[0]
        if is_ours(found.module) or name in sys.stdlib_module_names:
            continue
        assert name in OUTSIDE, f"{name} is new: give it a line in OUTSIDE of tests/test_imports.py"
        at_home = any(room == home or room.startswith(f"{home}.") for home in OUTSIDE[name])
        if not at_home and (found.at_the_top or name not in INSIDE_A_FUNCTION):
            wrong.append(f"{path.name}:{found.line} imports {name}")
    assert wrong == [], "OUTSIDE and INSIDE_A_FUNCTION of tests/test_imports.py say where it may be"


@every_source
def test_a_file_is_no_longer_than_a_room_should_be(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= FILE_LIMIT, (
        f"{path.name} has {lines} lines; over about 300 (the limit here is {FILE_LIMIT}) "
        "a file is asking to become two rooms"
    )


@every_source
def test_a_function_is_no_longer_than_a_page(path: Path) -> None:
    long = {
        f"{path.name}:{node.lineno} {node.name}": length
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := lines_of_the_body(node)) > FUNCTION_LIMIT
    }
    assert long == {}, (
        f"over about 50 lines below its docstring (the limit here is {FUNCTION_LIMIT}) "
        "a function is asking to become two"
    )


def lines_of_the_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0

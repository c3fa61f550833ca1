"""What can be broken: each guard of the core, taken out or bent, and the tests that must notice.

The mutants of `statebox/checks.py` lie in `checks.toml`, and so on: a name that says what the
library then no longer does, the text that stands in the file exactly once, and what takes its place.
`tests/test_checks.py` has to notice, unless `tests` names another file; `only` narrows it down, and
`file` names another file of the library. A name that begins with a number is a check of the
format's section 6.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """One change of the library's source that makes it wrong.

    Attributes:
        name: What the library then no longer does.
        file: The changed file, under statebox/.
        before: Text that stands there exactly once.
        after: What takes its place.
        tests: What pytest is to run; at least one of these tests has to fail.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def is_a_check_of_section_6(self) -> bool:
        """Whether a whole check of the format's section 6 is gone."""
        return self.name[0].isdigit()


def read() -> list[Mutant]:
    """Read the whole catalogue."""
    mutants: list[Mutant] = []
    for path in sorted(FOLDER.glob("*.toml")):
        entries: dict[str, dict[str, str]] = tomllib.loads(path.read_text("utf-8"))
        for name, entry in entries.items():
            tests = entry.get("tests", f"tests/test_{path.stem}.py")
            only = ("-k", entry["only"]) if "only" in entry else ()
            file = entry.get("file", f"{path.stem}.py")
            mutants.append(Mutant(name, file, entry["before"], entry["after"], (tests, *only)))
    return mutants

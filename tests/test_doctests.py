"""Every example that starts with `>>>`, in a docstring or a page, gives what it says."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
SOURCES = [*ROOT.glob("statebox/**/*.py")]
EXAMPLES = sorted(path for path in PAGES + SOURCES if ">>> " in path.read_text("utf-8"))


def test_there_are_examples() -> None:
    assert ROOT / "statebox" / "__init__.py" in EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_examples_give_what_they_say(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write a keyring.json
    if path.suffix == ".md":
        # A closing fence is no output.
        text = path.read_text("utf-8").replace("```", "")
        tests = [doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)]
    else:
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        tests = doctest.DocTestFinder(exclude_empty=True).find(module)
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0

"""No check of the format's section 6 can be taken out without a test that notices.

`make mutants` tries the rest of the catalogue: some 250 ways to bend the core.
"""

import pytest

from tests.mutants.catalogue import Mutant, read
from tests.mutants.running import ROOT, Workbench

MUTANTS = read()
CHECKS = [mutant for mutant in MUTANTS if mutant.is_a_check_of_section_6]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("mutants"))


def test_each_of_the_eleven_checks_can_be_taken_out() -> None:
    """The twelfth, single use, is the guard's, and has its tests there."""
    assert {int(mutant.name.split(" ")[0]) for mutant in CHECKS} == set(range(1, 12))


@pytest.mark.parametrize("mutant", CHECKS, ids=lambda mutant: mutant.name)
def test_a_test_fails_when_a_check_is_taken_out(mutant: Mutant, bench: Workbench) -> None:
    noticed, how = bench.try_mutant(mutant)
    assert noticed, f"nothing noticed that this check was gone: {how}"


def test_the_tests_pass_where_nothing_is_taken_out(bench: Workbench) -> None:
    """Otherwise the failures above would prove nothing."""
    code, output = bench.run(("tests/test_checks.py", "-k", "test_7 or test_8"))
    assert code == 0, output


def test_every_mutant_fits_the_source_as_it_is() -> None:
    """One whose text is gone would never be tried: the catalogue follows the library."""
    stale = [
        f"{mutant.file}: {mutant.name}"
        for mutant in MUTANTS
        if (ROOT / "statebox" / mutant.file).read_text("utf-8").count(mutant.before) != 1
    ]
    assert stale == []


def test_no_two_mutants_are_the_same() -> None:
    assert len({(mutant.file, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)

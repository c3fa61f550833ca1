"""Try every mutant: `python -m tests.mutants [WORD]`, with WORD only those whose name has it."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import Mutant, read
from tests.mutants.running import Workbench


def main(word: str = "") -> int:
    """Try the mutants whose name has a word; say which were noticed, and by which test.

    Returns:
        How many were not noticed: each needs a test.
    """
    chosen = [mutant for mutant in read() if word in mutant.name]
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        benches: SimpleQueue[Workbench] = SimpleQueue()
        for number in range(workers):
            place = Path(folder) / str(number)
            place.mkdir()
            benches.put(Workbench(place))

        def attempt(mutant: Mutant) -> tuple[bool, str]:
            bench = benches.get()
            try:
                return bench.try_mutant(mutant)
            finally:
                benches.put(bench)

        survivors = 0
        for mutant, (noticed, how) in zip(chosen, pool.map(attempt, chosen), strict=True):
            survivors += not noticed
            line = f"{'noticed ' if noticed else 'SURVIVED'} {mutant.name}: {how}\n"
            sys.stdout.write(line)
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {survivors} survived\n")
    return survivors


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)

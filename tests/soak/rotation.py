"""Replicas seal and open across each other at full speed while the ring rotates under them.

    python -m tests.soak.rotation --processes 8 --rotations 50 --every 3

Watched in every process: no valid token is rejected; none is sealed under a key before its nbf;
each key opens until its exp and is refused from then on. With `--speed 30` every clock in the run
goes 30 times as fast, so that the end of a key comes while a test waits for it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty, Full
from typing import NamedTuple, TypeAlias

from statebox import Keyring, Statebox, StateboxError
from statebox.errors import ExpiredKeyError, ExpiredTokenError
from statebox.sources import LiveSource, open_source
from statebox_cli import options
from statebox_cli.group import CommandGroup
from statebox_cli.main import COMMANDS

Token: TypeAlias = tuple[str, float]  # with the time it was sealed at

BATCH = 10


class Plan(NamedTuple):
    """What a run is made of; times are in seconds of its clock."""

    processes: int = 8
    rotations: int = 50
    every: float = 3  # from one rotation to the next, and until its key seals
    ttl: int = 30
    speed: float = 1
    began: float = 0  # when its clock was set, in seconds since 1970

    def clock(self) -> float:
        """Give the time of the run."""
        return self.began + (time.time() - self.began) * self.speed

    def wait(self, seconds: float) -> None:
        """Let time pass on the clock of the run."""
        time.sleep(seconds / self.speed)


@dataclass
class Report:
    """What one replica did and saw."""

    sealed: int = 0
    opened: int = 0
    refused_after_their_date: int = 0
    kids: set[str] = field(default_factory=set[str])
    faults: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Report) -> None:
        """Add what another one did and saw."""
        self.sealed += other.sealed
        self.opened += other.opened
        self.refused_after_their_date += other.refused_after_their_date
        self.kids |= other.kids
        self.faults += other.faults


class Replica:
    """One process that seals for the others, and opens what they sealed."""

    def __init__(
        self, plan: Plan, source: LiveSource, queues: list[Queue[Token]], number: int
    ) -> None:
        self.plan = plan
        self.source = source
        self.box = Statebox(source, audience="soak", ttl=plan.ttl, clock=plan.clock)
        self.inbox = queues[number]
        self.others = queues[:number] + queues[number + 1 :]
        self.report = Report()
        self.kept: dict[str, str] = {}  # the first token of each key

    def run(self, stop: Event) -> None:
        """Seal and open until told to stop, and then until every key but the last has ended."""
        turn = 0
        while not (stop.is_set() and self.all_ended()):
            turn += 1
            self.seal(self.others[turn % len(self.others)])
            self.open_all()
            for kid in sorted(self.kept)[turn % 8 :: 8]:
                self.try_old_key(kid)

    def seal(self, to: Queue[Token]) -> None:
        for _ in range(BATCH):
            now = self.plan.clock()
            token = self.box.seal({"step": 1}, principal="alice", request=None)
            self.report.sealed += 1
            try:
                to.put_nowait((token, now))
            except Full:
                return

    def open_all(self) -> None:
        for _ in range(2 * BATCH):
            try:
                token, sealed_at = self.inbox.get_nowait()
            except Empty:
                return
            self.open(token, sealed_at)

    def open(self, token: str, sealed_at: float) -> None:
        try:
            turn = self.box.open(token, principal="alice", request=None)
        except ExpiredTokenError:
            if self.plan.clock() < sealed_at + self.plan.ttl - 1:
                self.report.faults["a valid token had expired"] += 1
        except StateboxError as error:
            if self.plan.clock() < sealed_at + self.plan.ttl - 1:
                self.report.faults[f"a valid token was rejected: {error.code}"] += 1
        else:
            self.report.opened += 1
            self.report.kids.add(turn.key_id)
            self.kept.setdefault(turn.key_id, token)
            key = self.source.current().get(turn.key_id)
            if key is None or turn.issued_at < key.nbf:
                self.report.faults["a token was sealed under a pending key"] += 1

    def try_old_key(self, kid: str) -> None:
        key = self.source.current().get(kid)
        if key is None:
            self.report.faults["a key was taken out"] += 1
            return
        end = float("inf") if key.exp is None else key.exp
        before = self.plan.clock()
        try:
            self.box.open(self.kept[kid], principal="alice", request=None)
            refused = False
        except ExpiredKeyError:
            refused = True
        except ExpiredTokenError:
            refused = False
        if refused and self.plan.clock() < end:
            self.report.faults["a key was refused before its date"] += 1
        if not refused and before >= end:
            self.report.faults["a key opened after its date"] += 1
        if refused:
            del self.kept[kid]  # this one is done
            self.report.refused_after_their_date += 1

    def all_ended(self) -> bool:
        now = self.plan.clock()
        return all(key.exp is None or key.exp < now for key in self.source.current()) and (
            len(self.kept) <= 1
        )


def replica(
    plan: Plan,
    path: Path,
    queues: list[Queue[Token]],
    number: int,
    stop: Event,
    results: Connection,
) -> None:
    """Run one replica in a process of its own."""
    os.nice(10)  # full speed, but not at the cost of who rotates
    source = open_source(str(path), interval=1 / plan.speed)
    one = Replica(plan, source, queues, number)
    one.run(stop)
    results.send(one.report)
    for queue in queues:
        queue.cancel_join_thread()


def rotate(path: Path, plan: Plan) -> None:
    """Run `statebox keys rotate`: the command itself, in this process, by the clock of the run."""
    arguments = ["keys", "rotate", "--keyring", str(path), "--activate-in", f"{plan.every:.0f}s"]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        try:
            CommandGroup(COMMANDS).main(arguments)
        except SystemExit as end:
            if end.code:
                raise RuntimeError("rotate failed") from None


def run(plan: Plan) -> Report:
    """Carry out a whole run.

    Returns:
        What all replicas together did and saw.
    """
    plan = plan._replace(began=time.time())

    def moment(at: float | None) -> float:
        return plan.clock() if at is None else at

    options.moment = moment
    spawn = multiprocessing.get_context("spawn")
    total = Report()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring.json"
        path.touch(0o600)
        path.write_text(Keyring.generate(max_ttl=plan.ttl, now=plan.clock() - 60).to_json())
        queues: list[Queue[Token]] = [spawn.Queue(4 * BATCH) for _ in range(plan.processes)]
        stop = spawn.Event()
        pipes = [spawn.Pipe(duplex=False) for _ in range(plan.processes)]
        replicas = [
            spawn.Process(
                target=replica,
                args=(plan, path, queues, number, stop, pipes[number][1]),
                daemon=True,  # none outlives a run that fails
            )
            for number in range(plan.processes)
        ]
        for process, (_, writer) in zip(replicas, pipes, strict=True):
            process.start()
            writer.close()  # so that one that dies is noticed
        for _ in range(plan.rotations):
            rotate(path, plan)
            plan.wait(plan.every)
        stop.set()
        for (results, _), process in zip(pipes, replicas, strict=True):
            total.add(results.recv())
            process.join()
    return total


def main() -> None:
    """Run it as asked on the command line, and exit with 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Plan()
    parser.add_argument("--processes", type=int, default=defaults.processes)
    parser.add_argument("--rotations", type=int, default=defaults.rotations)
    parser.add_argument("--every", type=float, default=defaults.every)
    parser.add_argument("--ttl", type=int, default=defaults.ttl)
    parser.add_argument("--speed", type=float, default=defaults.speed)
    plan = Plan(**vars(parser.parse_args()))
    report = run(plan)
    told = vars(report) | {"kids": len(report.kids)}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.exit(1 if report.faults else 0)


if __name__ == "__main__":
    main()

"""Every target as a comparison: what statebox takes, over what it is measured against."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.boundary import sdk_call, sdk_pair, statebox_call, statebox_pair
from benchmarks.cases import (
    BOUND,
    MAP,
    MODES,
    SMALL_MAP,
    STATES,
    as_text,
    box_of,
    live_box_of,
    sealing,
    text,
)
from benchmarks.floor import floor_of, raw_pair
from benchmarks.measuring import Call, Effort, Ratio, Rounds, Turn, interleave
from benchmarks.peers import SIGNED, peer_of, peers_of, sdk_codec
from benchmarks.rejected import rejected_of
from benchmarks.rows import Row, Target
from statebox import Statebox
from statebox.keys import A256GCM, HS256
from statebox.state import State

FLOOR: Final = Target("seal, open without bindings, over the floor", 1.5)
BOUNDARY: Final = Target("seal + open with all bindings, over the SDK's boundary", 0.6)
PEERS: Final = Target("seal + open with all bindings, over each other peer", 0.5)
CODEC: Final = Target("the same, over the SDK's codec alone with inline claims and checks", 0.5)
FLOOR_OF_CODEC: Final = Target("the floor, without bindings, over that codec", None)
TEXT_CHARS: Final = Target("characters of a token over the SDK's, the state as text", 0.72, "%")
MAP_CHARS: Final = Target(
    "characters of a token over the SDK's, the same state as a map", 0.65, "%"
)
OTHER_CHARS: Final = Target("the same, for other states and the other mode", None, "%")
LARGE_RING: Final = Target("a ring of 1,000 keys over a ring of 1", 1.05)
FURTHER_KB: Final = Target("each further KB of state over AES-GCM + base64 of it", 1.2)
LIVE: Final = Target("a live file source over a fixed ring", 1.03)
REJECTED: Final = Target("a token rejected before authentication, over a valid one", 1.0)
FORGED: Final = Target("a token whose tag does not match, over a valid one", None)
BUILDS: Final = 20
WHOLE_CALL: Final = Target("the whole boundary call over the SDK's", None)


def against_the_floor(effort: Effort) -> Iterator[Row]:
    """Seal and open without bindings, both modes, over the bare primitives."""
    for alg in MODES:
        for name, state in STATES.items():
            ours, floor = sealing(box_of(alg), state, bound=False), floor_of(alg, state)
            calls = {
                "seal": ours.seal,
                "open": ours.open,
                "0 seal": floor.seal,
                "0 open": floor.open,
            }
            measured = interleave(calls, effort)
            for verb in ("seal", "open"):
                yield Row(FLOOR, f"{verb} {alg}, {name}", measured.ratio(verb, f"0 {verb}"))


def against_the_boundary(effort: Effort) -> Iterator[Row]:
    """Seal and open with audience, principal and request, over the SDK's boundary."""
    for name in BOUND:
        calls = {alg: statebox_pair(alg, STATES[name]).both for alg in MODES}
        measured = interleave({**calls, "sdk": sdk_pair(STATES[name]).both}, effort)
        for alg in MODES:
            yield Row(BOUNDARY, f"{alg}, {name}", measured.ratio(alg, "sdk"))


def against_the_peers(effort: Effort) -> Iterator[Row]:
    """Seal and open with all bindings, over every peer that does the same in the same mode."""
    for name in BOUND:
        peers = peers_of(STATES[name])
        calls: dict[str, Call] = {peer: pair.both for peer, pair in peers.items()}
        for alg in MODES:
            calls[alg] = sealing(box_of(alg), STATES[name], bound=True).both
        measured = interleave(calls, effort)
        for peer in peers:
            alg = HS256 if peer in SIGNED else A256GCM
            yield Row(PEERS, f"{alg} over {peer}, {name}", measured.ratio(alg, peer))


def against_the_codec(effort: Effort) -> Iterator[Row]:
    """Seal and open with all bindings, over the SDK's codec without its boundary."""
    measured: dict[str, Rounds] = {}
    for name in BOUND:
        calls = {
            "ours": sealing(box_of(A256GCM), STATES[name], bound=True).both,
            "floor": floor_of(A256GCM, STATES[name]).both,
            "codec": peer_of(sdk_codec, STATES[name]).both,
        }
        measured[name] = interleave(calls, effort)
    for name, rounds in measured.items():
        yield Row(CODEC, f"A256GCM over MCP SDK codec alone, {name}", rounds.ratio("ours", "codec"))
    for name, rounds in measured.items():
        yield Row(FLOOR_OF_CODEC, f"A256GCM, {name}", rounds.ratio("floor", "codec"))


def token_characters(effort: Effort) -> Iterator[Row]:
    """The length of a bound token over the SDK's, for the same state and bindings."""
    del effort  # a length is the same in every round
    # Targets are for the default mode, which encrypts as the SDK does, and a state of usual size.
    yield _characters(TEXT_CHARS, A256GCM, "small map", as_text(SMALL_MAP))
    yield _characters(MAP_CHARS, A256GCM, "small map", SMALL_MAP)
    yield _characters(OTHER_CHARS, HS256, "small map, as text", as_text(SMALL_MAP))
    yield _characters(OTHER_CHARS, HS256, "small map", SMALL_MAP)
    for alg in MODES:
        yield _characters(OTHER_CHARS, alg, "nested map, as text", as_text(MAP))
        yield _characters(OTHER_CHARS, alg, "nested map", MAP)
    yield _characters(OTHER_CHARS, A256GCM, "text of 4 KB", STATES["text of 4 KB"])


def _characters(target: Target, alg: str, name: str, state: State) -> Row:
    ours = len(statebox_pair(alg, state).seal())
    # The SDK writes the time with a varying number of digits.
    seal = sdk_pair(state).seal
    sdk = [len(seal()) for _ in range(201)]
    median = statistics.median_low(sdk)
    return Row(
        target,
        f"{alg}, {name}: {ours} over {median} characters",
        Ratio(ours / median, ours / max(sdk), ours / min(sdk)),
    )


def large_rings(effort: Effort) -> Iterator[Row]:
    """A ring of 1,000 keys over a ring of one."""
    for alg in MODES:
        yield from _alike(LARGE_RING, alg, partial(box_of, alg, 1000), partial(box_of, alg), effort)


def live_sources(effort: Effort) -> Iterator[Row]:
    """A keyring file that is watched over a ring that stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        for alg in MODES:
            live = partial(live_box_of, alg, Path(folder))
            yield from _alike(LIVE, alg, live, partial(box_of, alg), effort)


def _alike(
    target: Target,
    alg: str,
    ours: Callable[[], Statebox],
    base: Callable[[], Statebox],
    effort: Effort,
) -> Iterator[Row]:
    # The same code over data that lies elsewhere in memory differs by several percent, for as long
    # as both live. So both are made anew many times, in either order, and measured with finer turns.
    turns: list[Turn] = []
    for build in range(max(1, min(BUILDS, effort.rounds))):
        boxes = (ours(), base()) if build % 2 else (base(), ours())[::-1]
        our_pair, base_pair = (sealing(box, MAP, bound=True) for box in boxes)
        calls: dict[str, Call] = {"seal": our_pair.seal, "0 seal": base_pair.seal}
        calls |= {"open": our_pair.open, "0 open": base_pair.open}
        turns += interleave(calls, effort.finer(1 / BUILDS)).turns
    for verb in ("seal", "open"):
        yield Row(target, f"{verb} {alg}", Rounds(turns).ratio(verb, f"0 {verb}"))


def further_kilobytes(effort: Effort) -> Iterator[Row]:
    """What each further KB of a text state takes, over AES-GCM and base64 for as many bytes."""
    for small, large in ((1, 16), (16, 64)):
        calls: dict[str, Call] = {}
        for name, size in (("small", small << 10), ("large", large << 10)):
            ours, raw = sealing(box_of(A256GCM), text(size), bound=False), raw_pair(size)
            calls |= {f"seal {name}": ours.seal, f"open {name}": ours.open}
            calls |= {f"0 seal {name}": raw.seal, f"0 open {name}": raw.open}
        measured = interleave(calls, effort)
        for verb in ("seal", "open"):
            ratio = measured.of(partial(_further, verb))
            yield Row(FURTHER_KB, f"{verb}, from {small} KB to {large} KB", ratio)


def _further(verb: str, at: Turn) -> float:
    ours = at[f"{verb} large"] - at[f"{verb} small"]
    return ours / (at[f"0 {verb} large"] - at[f"0 {verb} small"])


def rejected_tokens(effort: Effort) -> Iterator[Row]:
    """A token that is refused before it is authenticated, over one that opens."""
    rows: list[Row] = []
    for alg in MODES:
        for name in ("text of 64 B", "text of 16 KB"):
            tokens = rejected_of(alg, STATES[name])
            calls = {reason: refused.call for reason, refused in tokens.items()}
            measured = interleave(calls, effort.times(0.5))
            for reason in calls:
                if reason != "valid":
                    target = FORGED if reason == "another tag" else REJECTED
                    ratio = measured.ratio(reason, "valid")
                    rows.append(Row(target, f"{reason} {alg}, {name}", ratio))
    yield from sorted(rows, key=lambda row: row.target is FORGED)  # stable, so otherwise as it was


def whole_calls(effort: Effort) -> Iterator[Row]:
    """A call through the middleware: a state comes in, is opened, and another goes out, sealed."""
    calls = {alg: statebox_call(alg) for alg in MODES}
    measured = interleave({**calls, "sdk": sdk_call()}, effort)
    for alg in MODES:
        yield Row(WHOLE_CALL, alg, measured.ratio(alg, "sdk"))

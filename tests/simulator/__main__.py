"""``python -m tests.simulator --seeds N``: play N markets of 50 orders, and measure what coalitions gain.

A seed always plays the same run. Prints a table, or with ``--output json`` one object: ``failures`` (seed and what does
not hold), ``speedup`` (simulated seconds a second), ``closed`` (orders by reason), ``coalitions`` (gain over honest
work in uassay a run, with the interval that holds its mean with 95 %). Ends with 1 where something does not hold, or
a coalition gains.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial

from localnet.simulator.coalitions import COALITIONS, Gain, gains_of, summarise
from localnet.simulator.play import Played, play


def _tell(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def _played(pool: ProcessPoolExecutor, seeds: range, orders: int) -> Iterator[Played]:
    for played in pool.map(partial(play, orders=orders), seeds):
        if played.failure:
            _tell(f"seed {played.seed}: {played.failure}")
        elif played.seed % 50 == 0:
            _tell(f"seed {played.seed} holds")
        yield played


def _gains(pool: ProcessPoolExecutor, seeds: range) -> Iterator[Gain]:
    found = list(pool.map(gains_of, seeds))
    for name in COALITIONS:
        yield summarise(name, [gains[name] for gains in found])


def _table(found: dict[str, object], runs: Sequence[Played], gains: Sequence[Gain]) -> str:
    lines = [
        f"{len(runs)} runs, {found['simulated_seconds']:,} simulated seconds,"
        f" {found['speedup']} times faster than real time",
        f"orders: {found['closed']}",
        *(f"seed {run.seed} ({run.kind}): {run.failure}" for run in runs if run.failure),
    ]
    lines += [
        f"{gain.name:26} {gain.mean:+14,.0f} uassay a run ({gain.low:+,.0f} to {gain.high:+,.0f});"
        f" honest work earns {gain.honest:,.0f}"
        for gain in gains
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.simulator", description=__doc__)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--seeds", type=int, default=20, help="how many runs (20)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--orders", type=int, default=50, help="orders of a run (50)")
    parser.add_argument("--coalitions", type=int, default=None, help="runs of each coalition (as many as seeds)")
    parser.add_argument("--processes", type=int, default=1, help="how many play at a time (1)")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    pairs = options.seeds if options.coalitions is None else options.coalitions
    with ProcessPoolExecutor(options.processes) as pool:
        runs = list(_played(pool, seeds, options.orders))
        gains = list(_gains(pool, range(1, pairs + 1))) if pairs else []
    wall = sum(run.wall for run in runs)
    simulated = sum(run.simulated for run in runs)
    found: dict[str, object] = {
        "seeds": options.seeds,
        "orders": options.orders,
        "failures": [{"seed": run.seed, "what": run.failure} for run in runs if run.failure],
        "speedup": round(simulated / wall, 1) if wall else 0,
        "simulated_seconds": round(simulated),
        "blocks": sum(run.height for run in runs),
        "crashes": sum(run.crashes for run in runs),
        "closed": dict(sum((run.closed for run in runs), Counter[str]()).most_common()),
        "lost_by_the_honest": sum(run.lost for run in runs),
        "coalitions": [asdict(gain) | {"holds": gain.holds} for gain in gains],
    }
    print(json.dumps(found) if options.output == "json" else _table(found, runs, gains))
    return int(any(run.failure for run in runs) or not all(gain.holds for gain in gains))


if __name__ == "__main__":
    sys.exit(main())

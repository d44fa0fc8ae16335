"""``python -m tests.simulator --seeds N``: play N random markets, and measure what coalitions gain.

A seed always plays the same run. Prints a table, or with ``--output json`` one object: ``failures`` (seed or coalition,
what does not hold, and the options that play the smallest run in which it does not), ``speedup`` (simulated seconds a
second of one process), ``closed`` (orders by reason), ``coalitions`` (gain over honest work in uassay a run, with the
interval that holds its mean with 95 %). With ``--search SECONDS`` each coalition also looks for the strategy with which
it gains most. Ends with 1 if something does not hold, or a coalition gains.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import chain

from localnet.simulator.coalitions import COALITIONS, Gain, summarise
from localnet.simulator.play import Played, play, shrink_market
from localnet.simulator.search import Failure, Found, Outcome, attack_in_turn, for_seconds, search, shrink_scheme
from localnet.simulator.shrink import FAULTS, NOTHING, Cuts
from localnet.simulator.strategies import Strategy, describe

CONFIRM = 20
"""Fresh draws in which the best strategies of a search are played."""


def _tell(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def _played(pool: Executor, seeds: range, orders: int, cuts: Cuts) -> Iterator[Played]:
    for played in pool.map(partial(play, orders=orders, cuts=cuts), seeds):
        if played.failure:
            _tell(f"seed {played.seed}: {played.failure}")
        elif played.seed % 50 == 0:
            _tell(f"seed {played.seed} holds")
        yield played


def _known(pool: Executor, draws: int) -> Iterator[Found | Failure]:
    """Play the known attacks: in each draw one of each coalition, in turn."""
    rows: dict[tuple[str, str], list[tuple[Strategy, int, Outcome]]] = {}
    for draw, played in enumerate(pool.map(attack_in_turn, range(draws))):
        for name, strategy, outcome in played:
            rows.setdefault((name, describe(strategy)), []).append((strategy, draw, outcome))
    for (name, _), found in sorted(rows.items(), key=lambda row: tuple(COALITIONS).index(row[0][0])):
        for strategy, draw, outcome in found:
            if outcome.failure:
                yield Failure(name, strategy, draw, outcome.failure)
        pairs = [(outcome.gain, outcome.honest) for _, __, outcome in found if not outcome.failure]
        if pairs:
            yield Found(summarise(name, pairs), found[0][0], 0, 0.0)


def _describe(gain: Gain) -> str:
    return (
        f"{gain.mean:+14,.0f} uassay a run ({gain.low:+,.0f} to {gain.high:+,.0f});"
        f" honest work earns {gain.honest:,.0f}"
    )


def _table(
    found: Mapping[str, object], runs: Sequence[Played], rows: Sequence[Found], failures: Sequence[Mapping[str, object]]
) -> str:
    lines = [
        f"{len(runs)} runs, {found['simulated_seconds']:,} simulated seconds,"
        f" {found['speedup']} times faster than real time",
        f"orders: {found['closed']}",
    ]
    for failure in failures:
        lines += [f"{failure['of']}: {failure['what']}", f"    smallest: {failure['smallest']}"]
    for row in rows:
        lines.append(f"{row.gain.name:34} {_describe(row.gain)}")
        lines.append(f"    {f'the best of {row.tried}: ' if row.tried else ''}{describe(row.strategy)}")
    return "\n".join(lines)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.simulator", description=__doc__)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--seeds", type=int, default=20, help="how many runs (20)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--orders", type=int, default=50, help="orders of a run (50)")
    parser.add_argument(
        "--coalitions", type=int, default=None, help="draws in which known attacks are played (as many as seeds)"
    )
    parser.add_argument("--search", type=float, default=0, metavar="SECONDS", help="look for better strategies so long")
    parser.add_argument("--search-seed", type=int, default=0, help="the seed of the search (0)")
    parser.add_argument("--confirm", type=int, default=CONFIRM, help=f"draws of each best strategy ({CONFIRM})")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes play (1)")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for the smallest run that fails")
    parser.add_argument("--only-orders", type=_numbers, default=None, help="play these orders of each run alone")
    parser.add_argument("--only-bad", type=_names, default=None, help="let all but these be honest (none: all)")
    parser.add_argument("--without", type=_names, default=(), help=f"leave out faults, of {', '.join(FAULTS)}")
    return parser.parse_args(arguments)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _names(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print, and return the exit code."""
    options = _parse(arguments)
    seeds = range(options.first, options.first + options.seeds)
    draws = options.seeds if options.coalitions is None else options.coalitions
    cuts = Cuts(options.only_orders, options.only_bad, options.without)
    broken: list[Played | Failure] = []
    rows: list[Found] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = list(_played(pool, seeds, options.orders, cuts))
        broken += [run for run in runs if run.failure]
        searched = (
            search(pool, options.jobs, for_seconds(options.search), options.confirm, seed=options.search_seed)
            if options.search
            else ()
        )
        for found in chain(_known(pool, draws) if draws else (), searched):
            if isinstance(found, Failure):
                _tell(f"{found.coalition}, draw {found.draw}: {found.what}")
                broken.append(found)
            else:
                rows.append(found)
        does = _as_it_is if options.no_shrink or cuts != NOTHING else _shrunk
        failures = list(pool.map(partial(does, options.orders), broken))
    wall = sum(run.wall for run in runs)
    simulated = sum(run.simulated for run in runs)
    result: dict[str, object] = {
        "seeds": options.seeds,
        "orders": options.orders,
        "failures": failures,
        "speedup": round(simulated / wall, 1) if wall else 0,
        "simulated_seconds": round(simulated),
        "blocks": sum(run.height for run in runs),
        "crashes": sum(run.crashes for run in runs),
        "challenges": sum(run.challenges for run in runs),
        "closed": dict(sum((run.closed for run in runs), Counter[str]()).most_common()),
        "lost_by_the_honest": sum(run.lost for run in runs),
        "coalitions": [
            asdict(row.gain) | {"holds": row.gain.holds, "strategy": describe(row.strategy), "tried": row.tried}
            for row in rows
        ],
    }
    print(json.dumps(result) if options.output == "json" else _table(result, runs, rows, failures))
    return int(bool(failures) or not all(row.gain.holds for row in rows))


def _as_it_is(orders: int, broken: Played | Failure) -> dict[str, object]:
    del orders
    if isinstance(broken, Played):
        return {"of": f"seed {broken.seed}", "seed": broken.seed, "what": broken.failure, "smallest": ""}
    of = f"{broken.coalition}, draw {broken.draw}"
    return {"of": of, "seed": broken.draw, "what": broken.what, "smallest": describe(broken.strategy)}


def _shrunk(orders: int, broken: Played | Failure) -> dict[str, object]:
    """Return a failure with the smallest run that was found in which it shows."""
    failure = _as_it_is(orders, broken)
    if isinstance(broken, Played):
        cuts, what = shrink_market(broken.seed, orders, broken.failure)
        command = f"python -m tests.simulator --first {broken.seed} --seeds 1 --orders {orders} --coalitions 0 {cuts}"
        return failure | {"smallest": command.rstrip(), "what": what}
    strategy, kept, what = shrink_scheme(broken)
    return failure | {"smallest": f"orders {', '.join(map(str, kept))}; {describe(strategy)}", "what": what}


if __name__ == "__main__":
    sys.exit(main())

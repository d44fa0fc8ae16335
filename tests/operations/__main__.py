"""``python -m tests.operations [--seeds N] [--first N] [--blocks N] [--operations N] [--every-kind]``: random messages.

Each seed is a market in which everybody sends messages of every kind, right and wrong ones. All invariants are checked
after each block. Prints how often each kind was done and refused. The exit code is 1 if an invariant breaks, or if
anything but a refusal is raised. With ``--every-kind`` it is also 1 if a kind was never done, or never refused. The
messages of proposals count when the proposals are executed. A seed always plays the same blocks.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence

from domain.vocabulary import MESSAGES
from tests.operations.play import Played, play

SEEDS, BLOCKS, OPERATIONS = 10, 100, 200


def table(runs: Sequence[Played]) -> str:
    """Return how often messages of each kind were done and refused."""
    done: Counter[str] = sum((run.done for run in runs), Counter())
    refused: Counter[str] = sum((run.refused for run in runs), Counter())
    codes: Counter[str] = sum((run.codes for run in runs), Counter())
    events: Counter[str] = sum((run.events for run in runs), Counter())
    lines = [f"{cls.__name__:30} {done[cls.__name__]:8,} done {refused[cls.__name__]:8,} refused" for cls in MESSAGES]
    lines.append(
        f"{sum(run.blocks for run in runs):,} blocks of {len(runs)} seeds: {done.total():,} messages done,"
        f" {refused.total():,} refused with {len(codes)} codes, {events.total():,} events of {len(events)} kinds"
    )
    return "\n".join(lines)


def missing_kinds(runs: Sequence[Played]) -> dict[str, list[str]]:
    """Return the kinds of messages that were never done, and those that were never refused, by these words."""
    counts = {"done": [run.done for run in runs], "refused": [run.refused for run in runs]}
    return {
        word: [cls.__name__ for cls in MESSAGES if not any(count[cls.__name__] for count in counters)]
        for word, counters in counts.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the seeds, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.operations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many ({SEEDS})")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of a seed ({BLOCKS})")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"random messages of a block ({OPERATIONS})")
    parser.add_argument("--every-kind", action="store_true", help="fail if a kind was never done, or never refused")
    options = parser.parse_args(arguments)
    for name in ("seeds", "blocks", "operations"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, or nothing is played")
    runs, failed = [], 0
    for seed in range(options.first, options.first + options.seeds):
        begun = time.monotonic()
        try:
            runs.append(play(seed, options.blocks, options.operations))
        except Exception:  # noqa: BLE001 - each is a finding, and the other seeds are played as well
            failed += 1
            print(f"seed {seed} fails:\n{traceback.format_exc()}", flush=True)
        print(f"... seed {seed}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(table(runs))
    missing = missing_kinds(runs) if options.every_kind else {}
    for word, names in missing.items():
        if names:
            print(f"never {word}: {', '.join(names)}")
    return 1 if failed or any(missing.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

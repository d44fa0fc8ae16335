"""``python -m tests.fuzz [--programs N] [--seed N] [--executors NAME...]``: random programs have one result everywhere.

Each program is run on the reference and on the others: node by node with every value compared, and as an executor takes
whole programs; and on the reference with its repeats written out. A seed makes the same program everywhere, so what is
printed can be run again. Ends with 1 where anything differs.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from pol.executor.backend import computing
from pol.executor.names import BACKENDS, NUMPY, Engine
from pol.job.program import Program
from pol.job.unroll import unroll
from tests.support.programs import observed, outcome, shown
from tests.unit.pol.executor.ops import get

PROGRAMS = 4_000
_TELL = 500


def differences(seeds: Sequence[int], executors: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield for each seed how many nodes its program has, and what differs: empty where nothing does."""
    for seed in seeds:
        program, inputs = shown(np.random.default_rng(seed))
        reference = observed(get(NUMPY), program, inputs)
        found = []
        found_by_all = reference["an output"]
        # a row that is missing in what no turn reads
        is_left_out = isinstance(found_by_all, str) and _leaves_out(program)
        if not is_left_out and outcome(get(NUMPY), unroll(program), inputs) != found_by_all:
            found.append(f"seed {seed}, {NUMPY}: an output differs once repeats are written out")
        for name in executors:
            other = observed(get(name), program, inputs)
            found += [
                f"seed {seed}, {name}: {what} differs"
                for what in reference.keys() | other.keys()
                if reference.get(what) != other.get(what)
            ]
        yield len(program.nodes), "\n".join(sorted(found))


def _leaves_out(program: Program) -> bool:
    """Whether a body has an input that it does not read, so that its unrolling computes less."""
    for body, _ in program.bodies:
        read = {number for node in body.nodes for number in node.args} | set(body.outputs.values())
        if not read.issuperset(range(len(body.inputs))) or _leaves_out(body):
            return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS, help=f"how many ({PROGRAMS:,})")
    parser.add_argument("--seed", type=int, default=0, help="of the first program (0)")
    others = [name for name in BACKENDS if name != NUMPY]
    parser.add_argument("--executors", nargs="+", choices=others, default=others)
    options = parser.parse_args(arguments)
    print(f"{NUMPY} beside {', '.join(computing(Engine(name)) for name in options.executors)}", flush=True)
    nodes = wrong = 0
    seeds = range(options.seed, options.seed + options.programs)
    for done, (count, found) in enumerate(differences(seeds, options.executors), 1):
        nodes += count
        if found:
            wrong += 1
            print(found, flush=True)
        if done % _TELL == 0:
            print(f"... {done:,} programs", file=sys.stderr, flush=True)
    print(f"{options.programs:,} programs, {nodes:,} nodes: {wrong} programs differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

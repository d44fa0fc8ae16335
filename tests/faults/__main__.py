"""``python -m tests.faults [--output json] [--only NAME...] [--minutes M]``: a kill -9 in each phase of an order.

Each cell kills one process of a network in one phase of an order, and starts it again. The order must end as an order
without a kill does: with the same model, the same payments, and no bond cut. A table on standard output, or JSON rows;
progress on standard error. The exit code is 1 if a cell fails, and 2 if a name is none.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.faults.cells import chosen
from tests.faults.play import Outcome, play_cells


def as_json(outcome: Outcome) -> dict[str, object]:
    """Return a cell as a JSON object."""
    return {
        "process": outcome.cell.process.value,
        "phase": outcome.cell.phase.value,
        "ended": outcome.ended,
        "expected": outcome.expected,
        "hash_equal": outcome.hash_equal,
        "coins_conserved": outcome.coins_conserved,
        "seconds": outcome.seconds,
        "ok": outcome.ok,
    }


def as_table(outcomes: Sequence[Outcome]) -> Table:
    """Return all cells for a terminal."""
    table = Table("killed", "phase", "ended", "same model", "coins conserved", "s", "", title="kill -9 and restart")
    for outcome in outcomes:
        table.add_row(
            outcome.cell.process.value,
            outcome.cell.phase.value,
            outcome.ended or "-",
            "yes" if outcome.hash_equal else "NO",
            "yes" if outcome.coins_conserved else "NO",
            f"{outcome.seconds:.0f}",
            outcome.problem or "ok",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the cells that are named, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cells, processes or phases")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no cell after so many minutes")
    options = parser.parse_args(arguments)
    try:
        cells = chosen(options.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2

    def tell(what: str) -> None:
        print(f"... {what}", file=sys.stderr, flush=True)

    outcomes: list[Outcome] = []
    with TemporaryDirectory(prefix="assay-faults-") as folder:
        for outcome in play_cells(cells, Path(folder), tell, options.minutes):
            tell(f"{len(outcomes) + 1} of {len(cells)}, {outcome.cell.name}: {outcome.problem or 'ok'}")
            outcomes.append(outcome)
    if options.output == "json":
        print(json.dumps([as_json(outcome) for outcome in outcomes], indent=1))
    else:
        Console(width=160).print(as_table(outcomes))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.same_bits [--all] [--output json] [NAME...]``: one hash, whoever trains and whatever goes wrong.

Each row trains a job twice: here, as ``assay job run`` does, and on a network of real processes; the SHA-256 of both
model files is one. Without names the rows of ``make test`` are run, with ``--all`` every one. A table on standard
output, or JSON rows; how it goes on standard error. Ends with 1 where a row differs or its fault did not happen, and
with 2 where a name is none.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.same_bits.run import Outcome, run_rows
from tests.same_bits.table import IN_MAKE_TEST, ROWS


def as_json(outcome: Outcome) -> dict[str, object]:
    """Return a row as a JSON object."""
    row = outcome.row
    return {
        "name": row.name,
        "job": row.job,
        "providers": len(row.providers),
        "slots": row.slots,
        "outer": type(row.outer).__name__,
        "one_round": row.one_round,
        "fault": ", ".join(row.faults),
        "local_sha256": outcome.local_sha256,
        "network_sha256": outcome.network_sha256,
        "same": outcome.same,
        "error": outcome.error,
    }


def verdict(outcome: Outcome) -> str:
    """Return what a row has shown, in words."""
    return "same" if outcome.same else outcome.error or "DIFFERS"


def as_table(outcomes: Sequence[Outcome]) -> Table:
    """Return all rows for a terminal."""
    columns = ("row", "job", "providers", "slots", "outer", "fault", "here", "network", "")
    table = Table(*columns, title="SHA-256 of the model (16 digits of it)")
    for outcome in outcomes:
        row = outcome.row
        table.add_row(
            row.name,
            row.job,
            str(len(row.providers)),
            str(row.slots),
            type(row.outer).__name__,
            ", ".join((*row.faults, *(["one round"] if row.one_round else []))),
            outcome.local_sha256[:16],
            outcome.network_sha256[:16],
            verdict(outcome),
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows that are named, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.same_bits", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run every row")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to run")
    options = parser.parse_args(arguments)
    known = {row.name: row for row in ROWS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"no row is called {', '.join(unknown)}: {', '.join(known)}", file=sys.stderr)
        return 2
    names = list(known) if options.all else options.names or IN_MAKE_TEST

    def tell(what: str) -> None:
        print(f"... {what}", file=sys.stderr, flush=True)

    outcomes: list[Outcome] = []
    for outcome in run_rows([known[name] for name in names], tell):
        tell(f"{outcome.row.name}: {verdict(outcome)}")
        outcomes.append(outcome)
    if options.output == "json":
        print(json.dumps([as_json(outcome) for outcome in outcomes], indent=1))
    else:
        Console(width=160).print(as_table(outcomes))
    return 0 if all(outcome.same for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.same_bits [--all | --machines N,N] [--output json] [NAME...]``: one hash, whoever trains.

Each row trains a job twice: here, as ``assay job run`` does, and on a network of real processes; the SHA-256 of both
model files is one. Without names the rows of ``make test`` are run, with ``--all`` every one. A table on standard
output, or JSON rows; how it goes on standard error. With ``--machines 1,2,3,4`` other jobs are trained on so many
machines of one owner instead of a network: virtual ones, and processes. Ends with 1 where a row differs or its fault
did not happen, and with 2 where a name is none.
"""

import argparse
import json
import sys
from collections.abc import Collection, Sequence

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


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _tell(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def run_machines(counts: Sequence[int], names: Sequence[str], output: str) -> int:
    """Run the rows for these numbers of machines, or those of them that are named."""
    from tests.same_bits.machines import machine_rows, run_machine_rows

    known = {row.name: row for row in machine_rows(counts)}
    if refused := _refused(names, known):
        return refused
    outcomes = list(run_machine_rows([known[name] for name in names or known], _tell))
    rows = [outcome.as_json() for outcome in outcomes]
    if output == "json":
        print(json.dumps(rows, indent=1))
    else:
        table = Table(*rows[0], title="SHA-256 of the model (16 digits of it)")
        for values in rows:
            table.add_row(*(str(value)[:16] if "sha256" in name else str(value) for name, value in values.items()))
        Console(width=200).print(table)
    return 0 if all(outcome.same for outcome in outcomes) else 1


def _refused(names: Sequence[str], known: Collection[str]) -> int:
    """Return 2 if a row is named that there is not, else 0."""
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no row is called {', '.join(unknown)}: {', '.join(known)}", file=sys.stderr)
        return 2
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows that are named, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.same_bits", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run every row")
    parser.add_argument("--machines", type=_numbers, metavar="N,N", help="machines that compute together")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to run")
    options = parser.parse_args(arguments)
    if options.machines:
        return run_machines(options.machines, options.names, options.output)
    known = {row.name: row for row in ROWS}
    if refused := _refused(options.names, known):
        return refused
    names = list(known) if options.all else options.names or IN_MAKE_TEST
    outcomes: list[Outcome] = []
    for outcome in run_rows([known[name] for name in names], _tell):
        _tell(f"{outcome.row.name}: {verdict(outcome)}")
        outcomes.append(outcome)
    if options.output == "json":
        print(json.dumps([as_json(outcome) for outcome in outcomes], indent=1))
    else:
        Console(width=160).print(as_table(outcomes))
    return 0 if all(outcome.same for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.load [--orders N] [--providers N] [--at-once N] [--output json]``: many orders at once.

A network of real processes with four validators serves all orders. Each of them must settle before its deadline, and no
coin may be missing. A table on standard output, or a JSON object; progress on standard error. The exit code is 1 if an
order did not settle.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from tests.load.play import LoadResult, play_load


def as_json(result: LoadResult) -> dict[str, object]:
    """Return the result as a JSON object."""
    return {**asdict(result), "ok": result.ok}


def as_table(result: LoadResult) -> Table:
    """Return the memory of each process for a terminal."""
    ends = ", ".join(f"{count} {reason}" for reason, count in result.closed.items())
    title = f"{result.orders} orders in {result.seconds:.0f} s: {ends}; {result.late} late, {result.missing} incomplete"
    table = Table("process", "MiB after a quarter", "most MiB", "growth", title=title)
    for name, memory in sorted(result.memory.items()):
        table.add_row(name, f"{memory.early >> 20}", f"{memory.most >> 20}", f"{memory.growth:.2f}")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the orders, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.load", description=__doc__)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--providers", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=4, help="orders that a validator serves at the same time")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args(arguments)
    if min(options.orders, options.providers, options.at_once) < 1:
        parser.error("each number is at least 1")

    def tell(what: str) -> None:
        print(f"... {what}", file=sys.stderr, flush=True)

    with TemporaryDirectory(prefix="assay-load-") as folder:
        result = play_load(options.orders, options.providers, options.at_once, Path(folder), tell)
    if options.output == "json":
        print(json.dumps(as_json(result), indent=1))
    else:
        Console(width=120).print(as_table(result))
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())

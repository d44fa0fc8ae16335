"""``python -m tests.mutants [--output json] [NAME...]``: which test notices which harm, and which harm none does.

A table on standard output, or JSON rows of ``mutant`` and ``killed_by`` (null: it survives); how it goes on standard
error. Ends with 1 where a mutant survives, and with 2 where nothing can be said: a name that is none, a mutant whose
text is no longer in its file, tests that fail without a mutant.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from tests.mutants.run import Unusable, run_mutants
from tests.mutants.table import MUTANTS


def _tell(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def _table(rows: Sequence[tuple[str, str | None]]) -> str:
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {killed_by or 'SURVIVES'}" for name, killed_by in rows]
    survivors = sum(killed_by is None for _, killed_by in rows)
    return "\n".join([*lines, "", f"{len(rows) - survivors} of {len(rows)} noticed"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants that are named, or all, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run (all)")
    options = parser.parse_args(arguments)
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"no mutant is called {', '.join(unknown)}: {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.names] or list(MUTANTS)
    try:
        rows = [(mutant.name, killed_by) for mutant, killed_by in run_mutants(chosen, _tell)]
    except Unusable as error:
        print(error, file=sys.stderr)
        return 2
    if options.output == "json":
        print(json.dumps([{"mutant": name, "killed_by": test} for name, test in rows], indent=1))
    else:
        print(_table(rows))
    return 1 if any(killed_by is None for _, killed_by in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.vectors.arithmetic check COMMAND...`` asks an executor; ``page`` writes the page again."""

import argparse
import sys
from collections.abc import Sequence

from tests.vectors.arithmetic.cases import FAMILIES, read
from tests.vectors.arithmetic.check import check
from tests.vectors.arithmetic.page import PAGE, rendered

_SHOWN = 20


def main(arguments: Sequence[str]) -> int:
    """Return 0 where every answer is right, 1 where one is not, 2 for a wrong use."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors.arithmetic")
    actions = parser.add_subparsers(dest="action", required=True)
    asking = actions.add_parser("check", help="ask an executor that is a command")
    asking.add_argument("--only", metavar="OP,OP", help="these primitives (default: all)")
    asking.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS")
    asking.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND...")
    actions.add_parser("page", help="write the made parts of docs/arithmetic.md again")
    chosen = parser.parse_args(arguments)
    if chosen.action == "page":
        PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    if not chosen.command:
        asking.error("name a command")
    places = {f"{f}.json[{i}] {case['op']}": case for f in FAMILIES for i, case in enumerate(read(f))}
    if chosen.only is not None:
        only = set(chosen.only.split(","))
        unknown = only - {case["op"] for case in places.values()}
        if unknown:
            asking.error(f"no case is of {', '.join(sorted(unknown))}")
        places = {place: case for place, case in places.items() if case["op"] in only}
    report = check(chosen.command, places, chosen.deadline)
    for line in report.wrong[:_SHOWN]:
        print(line)
    if len(report.wrong) > _SHOWN:
        print(f"and {len(report.wrong) - _SHOWN} more")
    print(f"{report.right} of {len(places)} answers are right")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

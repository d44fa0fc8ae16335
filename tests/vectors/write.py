"""Write the vectors again: ``python -m tests.vectors.write [KIND...]``; says what it wrote and what changed."""

import json
import sys

from tests.vectors.kinds import KINDS, first_difference, path_of, text_of


def write(kind: str) -> str:
    """Write the file of a kind and say what became of it."""
    path, value = path_of(kind), KINDS[kind]()
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    new = text_of(value)
    path.write_text(new, encoding="utf-8")
    if not old:
        return f"{path.name}: new, {len(new)} bytes"
    if old == new:
        return f"{path.name}: as it was"
    where = first_difference(json.loads(old), json.loads(new)) or "the form only"
    return f"{path.name}: changed, STATE-BREAKING unless it is a new case; first at {where}"


def main(names: list[str]) -> int:
    """Write the kinds that are named, or all; 2 for a name that is none."""
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        print(f"no vectors are called {', '.join(unknown)}: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    for kind in names or KINDS:
        print(write(kind))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

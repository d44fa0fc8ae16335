"""Comparison of vectors across a change of names: ``python -m tests.vectors.renamed COMMIT``.

Names of fields and of kinds are no part of messages, commitments or the arithmetic. They are part of the records of
the state, which are JSON, so hashes of the state differ; all other values have to be equal after the table is applied.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = {
    "Place": "AuditPlace",
    "SlotOpened": "SlotStarted",
    "SlotOpening": "SlotStart",
    "counts_from": "valid_from",
    "found": "finding",
    "halved_at": "promise_halved_at",
    "held_burn": "withheld_burn",
    "held_compensation": "withheld_compensation",
    "made_good": "compensated",
    "opening_root": "initial_root",
    "openings": "starts",
    "righted": "right_shares_paid",
    "DutiesRequest": "LiveLegsRequest",
    "DutiesResponse": "LiveLegsResponse",
}
"""Old name to new one: of messages, records and queries, of their fields, of parameters, and of kinds of payments."""
STATE_HASHES = ("app_hash", "genesis_app_hash")
"""Keys of values that hash the records of the state, whose names they contain."""
_ATTRIBUTE = re.compile(r"([a-z_]+)=")
"""The name of an attribute of an event, before its value."""
_FOLDER = Path(__file__).parent


def renamed(value: Any) -> Any:
    """Return a value with new names, also in attributes of events and in JSON texts, whose keys are sorted again."""
    match value:
        case dict():
            return {NAMES.get(key, key): None if key in STATE_HASHES else renamed(part) for key, part in value.items()}
        case list():
            return [renamed(part) for part in value]
        case str() if value[:1] in ("{", "["):
            return json.dumps(renamed(json.loads(value)), sort_keys=True, separators=(",", ":"))
        case str() if attribute := _ATTRIBUTE.match(value):
            name = attribute[1]
            return f"{NAMES.get(name, name)}={renamed(value[attribute.end() :])}"
        case str():
            return NAMES.get(value, value)
        case _:
            return value


def main(commit: str) -> int:
    """Compare the vectors of a commit with those of this checkout; return 1 if any differs."""
    different = 0
    for path in sorted(_FOLDER.rglob("*.json")):
        name = path.relative_to(_FOLDER.parents[1])
        old = subprocess.run(["git", "show", f"{commit}:{name}"], capture_output=True, text=True, check=True).stdout
        is_equal = renamed(json.loads(old)) == renamed(json.loads(path.read_text(encoding="utf-8")))
        different += not is_equal
        print(f"{name}: {'equal after renaming' if is_equal else 'DIFFERENT'}")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""Which file is made by which builder, and how a file is written."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.vectors.arithmetic.cases import FAMILIES
from tests.vectors.builders import (
    arithmetic,
    job,
    market,
    proof,
    sampling,
    secrets,
    training,
    transactions,
)

FOLDER = Path(__file__).parent
WIDTH = 120

KINDS: Mapping[str, Callable[[], Any]] = {
    "market": market.build,
    "transactions": transactions.build,
    "commitments": proof.build_commitments,
    "lot": proof.build_lot,
    "link": secrets.build_link,
    "handover": secrets.build_handover,
    "vrf": secrets.build_vrf,
    "state": job.build_state,
    "job": job.build_job,
    "training": training.build,
    "sampling": sampling.build,
    **{f"arithmetic/{family}": partial(arithmetic.build, family) for family in FAMILIES},
}


def path_of(kind: str) -> Path:
    """Return the file of a kind."""
    return FOLDER / f"{kind}.json"


def text_of(value: Any) -> str:
    """Return JSON in which everything that fits into a line has one line."""
    return _lines(value, "") + "\n"


def _lines(value: Any, indent: str) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_lines(item, deeper)}" for key, item in value.items()]
    else:
        parts = [_lines(item, deeper) for item in value]
    start, end = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(deeper + part for part in parts)
    return f"{start}\n{body}\n{indent}{end}"


def first_difference(old: Any, new: Any, at: str = "") -> str:
    """Return where two JSON values differ first and what is there; empty where they are equal."""
    if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        parts = [(f"{at}.{key}", old[key], new[key]) for key in old]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        parts = [(f"{at}[{i}]", x, new[i]) for i, x in enumerate(old)]
    else:
        same = type(old) is type(new) and old == new
        return "" if same else f"{at or '.'}: {_short(old)} became {_short(new)}"
    found = (first_difference(x, y, where) for where, x, y in parts)
    return next(filter(None, found), "")


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object of {', '.join(value)}"
    if isinstance(value, list) and len(str(value)) > WIDTH:
        return f"a list of {len(value)}"
    return json.dumps(value)

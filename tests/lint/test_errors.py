"""Every exception class is in the tree that domain/errors.py draws, or has a reason not to be."""

import ast
import builtins
import re
from pathlib import Path

from domain import errors

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))

# Bugs of ours, and what is turned into another error before it leaves its file.
NOT_EXPECTED = {
    "BrokenFrame": "ends one connection of the ABCI server",
    "InvariantBroken": "a bug of ours: the node stops",
    "LedgerBroken": "a bug of ours: the node stops",
    "Mismatch": "a bug of ours, found when a converter is compiled",
    "OutOfBounds": "turned into the error of whoever reads",
    "Refused": "a worker says it to its daemon",
    "Stop": "the set-up runs without the packages",
    "Unusable": "host knows no tree: turned into the StoreError of a daemon",
}


BASES = {
    node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ClassDef)
}


def built_in(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def expected(name: str) -> bool:
    return name == "Expected" or any(map(expected, BASES.get(name, [])))


def test_every_error_is_expected_or_has_a_reason_not_to_be() -> None:
    roots = {name for name, bases in BASES.items() if any(map(built_in, bases))}
    assert roots == {"Expected", *NOT_EXPECTED}


def test_the_drawing_names_every_error() -> None:
    drawn = set(
        re.findall(r"[A-Z][A-Za-z]+", str(errors.__doc__).partition("A Refusal carries")[0])
    )
    assert {name for name in BASES if expected(name)} <= drawn

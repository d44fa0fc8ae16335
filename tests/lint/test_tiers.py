"""Only a tier knows what its name means and when two findings agree: all other code asks the tier."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pol.rules.tiers.table import tier_names

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "assay",
    "chain",
    "compute_provider",
    "console",
    "consumer",
    "domain",
    "escrow",
    "host",
    "link",
    "localnet",
    "matching_engine",
    "pol",
    "tools",
    "validator",
    "wire",
)
TIERS = ("pol/rules/tiers/", "validator/work/checks/")
"""Where tiers are."""
FINDINGS = ("chain/state_machine/", "console/", "consumer/", "pol/rules/", "validator/")
"""Where findings are read, or the roots that they are about."""
ROOTS = frozenset(
    (
        *("root", "digest", "claim", "claimed", "commitment", "found", "finding", "next_root"),
        *("boundary_root", "update_root", "trace_root", "local_out"),
    )
)
OPENINGS = {
    # A hash of what was shown, which has to be the one that was committed to: the same in every tier.
    ("chain/state_machine/proof/handlers/accept_shares.py", "commitment != claim.commitment"),
    ("chain/state_machine/disputes/handlers.py", "commitment != dispute.commitment"),
    ("chain/state_machine/disputes/stands.py", "made != claim.commitment"),
    ("chain/state_machine/proof/handlers/ask_receipt.py", "share.claim.commitment != message.commitment"),
    ("chain/state_machine/proof/handlers/deliveries.py", "commitment != claim.commitment"),
    ("validator/decide/receive.py", "commitment != claim.commitment"),
    ("validator/watch/challenge.py", "known.commitment == commitment"),
    ("chain/state_machine/proof/handlers/seats.py", "commitment != seat.commitment"),
    ("validator/decide/traces.py", "commitment != claim.commitment"),
    ("validator/decide/seats.py", "duty.commitment != sealed.commitment"),
    ("chain/state_machine/attest/handlers.py", "sealed != seat.commitment"),
    ("validator/decide/attest.py", "_seal(key, look, answer) == duty.seat.commitment"),
    (
        "validator/decide/traces.py",
        '(compute_trace_root(leaves) if leaves else b"") != roots.trace_root',
    ),
    ("chain/state_machine/proof/handlers/show_trace.py", "merkle_root(message.leaves) != roots.trace_root"),
    # An alarm decides nothing: it only makes a validator replay more of its own choice.
    ("validator/decide/alarms.py", "one.boundary_root == other.boundary_root"),
    ("validator/decide/alarms.py", "other.packet.roots.update_root == packet.roots.update_root"),
    # States that are sent on have to hash to what is looked for.
    ("validator/work/loaded.py", "boundary_root(*opened.roots, asked.metrics) == asked.root"),
    ("validator/work/loaded.py", "state_tree(state).root != file.root"),
    ("validator/work/together.py", "boundary_root(*roots, start.metrics) != start.root"),
    ("validator/work/perform.py", "written.root == share.root_at(action.index)"),
    ("validator/work/numerics.py", "boundary_root(first, second, asked.opened.metrics) == asked.opened.root"),
    ("validator/work/together.py", "boundary_root(first, second, closing.metrics) == closing.root"),
    (
        "validator/work/together.py",
        "self._hashed(group, asked.directory, opening.path, asked.closing, ends) == opening.root",
    ),
    # Leaves that the validator sends have to hash to the root on chain.
    (
        "consumer/unsealing.py",
        "ciphertext_root(expected.handover, [leaf.sealed for leaf in self._leaves]) != expected.root",
    ),
    # A state is looked up by the root that the chain has for it.
    ("validator/ledger.py", "state.root in roots"),
    ("validator/serve/service.py", "state.root not in roots"),
    (
        "validator/work/results.py",
        "ciphertext_root(action.handover, [leaf.sealed for leaf in leaves]) == action.root",
    ),
    ("validator/work/states.py", "state.root in missing - taken"),
    ("validator/work/numerics.py", "file_root(file.path) == file.root"),
    ("consumer/states.py", "state.root in missing"),
    ("consumer/states.py", "_root_of(arrived) == state.root"),
    ("validator/decide/initial.py", "s.root == leg.initial_root"),
    ("validator/decide/keeping.py", "state.root in roots"),
    # A share on chain is that of a record if its provider signed the same claim.
    ("validator/decide/rounds.py", "work.signed.claim == share.claim"),
    ("validator/decide/taking.py", "work.signed.claim == share.claim"),
    ("chain/state_machine/proof/handlers/commit_traces.py", "included.claim != claim"),
}
"""Comparisons that say whether something is what it hashes to, and nothing about agreement."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(TIERS) and "_pb2" not in name:
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def compared_names(tree: ast.AST, names: tuple[str, ...]) -> Iterator[ast.expr]:
    """Yield comparisons, patterns and keys that are the name of a tier."""
    for node in ast.walk(tree):
        sides: list[ast.expr | None] = []
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                sides += [
                    part for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set) for part in side.elts
                ]
            case ast.MatchValue(value=value):
                sides = [value]
            case ast.Subscript(value=table, slice=key):
                sides = [key, *(table.keys if isinstance(table, ast.Dict) else ())]
        yield from (side for side in sides if isinstance(side, ast.Constant) and side.value in names)


def compared_roots(tree: ast.AST) -> Iterator[str]:
    """Yield the text of each comparison of a root with something that is no constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops):
            continue
        sides = (node.left, *node.comparators)
        constant = any(isinstance(side, ast.Constant) for side in sides)
        if not constant and any(isinstance(side, ast.Attribute) and side.attr in ROOTS for side in sides):
            yield ast.unparse(node).replace("'", '"')


def test_nothing_compares_the_name_of_a_tier() -> None:
    found = [f"{name}:{side.lineno}" for name, tree in sources() for side in compared_names(tree, tier_names())]
    assert not found


def test_nothing_compares_roots_of_findings() -> None:
    found = {(name, text) for name, tree in sources() if name.startswith(FINDINGS) for text in compared_roots(tree)}
    assert found == OPENINGS


@pytest.mark.parametrize(
    "source",
    [
        'x = leg.tier == "exact"',
        'x = leg.tier in ("exact", "other")',
        'match tier:\n    case "exact":\n        pass',
        'x = {"exact": 1}[tier]',
        'x = rates["exact"]',
    ],
)
def test_a_name_is_seen_however_it_is_compared(source: str) -> None:
    assert list(compared_names(ast.parse(source), ("exact",)))


@pytest.mark.parametrize("source", ["answer.root == claim", "made != share.commitment", "root in (place.claim,)"])
def test_a_root_is_seen_on_either_side(source: str) -> None:
    tree = ast.parse(source)
    assert bool(list(compared_roots(tree))) is (" in " not in source)
    assert not list(compared_roots(ast.parse('place.claim != b""')))

"""A tier for tests alone: findings agree if the first four bytes of their roots do, and half of the rounds are audited.

It shows that nothing outside a tier assumes that roots are equal or that every round has a panel.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from unittest.mock import patch

from domain.amount import BPS
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.proof.records import Finding, SeatAnswer
from pol.rules.tiers import table
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.tier import Description, Tier
from pol.rules.tiers.votes import Counted, count_wanted, decide, judge, rule

COUNTS = 4


def _first(finding: Finding) -> Finding:
    return replace(finding, root=finding.root[:COUNTS])


def _nothing(_: SeatAnswer, __: bytes) -> bytes:
    """Digests cover every byte of a state, so honest seats of this tier have different ones."""
    return b""


def _half(_: JobTerms, __: int, ___: int, ____: OrderParams) -> int:
    return BPS // 2


def _is_same_share(rejected: bytes, accepted: bytes) -> bool:
    return rejected[:COUNTS] == accepted[:COUNTS]


COUNTED = Counted(_first, _nothing)
FOUR_BYTES: Tier = replace(
    EXACT,
    name="four-bytes",
    description=Description(
        arithmetic="any that gives the same first four bytes of a root",
        recomputed="a panel for half of the rounds",
        agreement="if the first four bytes of their roots are equal",
        promise="tests pass",
        against="mistakes",
        cost="half of the audits",
    ),
    rate=_half,
    draws_doubtful=False,
    decide=partial(decide, COUNTED),
    judge=partial(judge, COUNTED),
    count_wanted=partial(count_wanted, COUNTED),
    rule=partial(rule, COUNTED),
    is_same_share=_is_same_share,
    penalty=5,
)


def within(root: bytes, name: bytes = b"") -> bytes:
    """Return another root that agrees with this one."""
    return root[:COUNTS] + bytes(byte ^ 0xFF for byte in root[COUNTS : len(root) - len(name)]) + name


@contextmanager
def registered(*tiers: Tier) -> Iterator[None]:
    """Let the software run more tiers than it ships, in the order given, behind its own."""
    more = {tier.name: tier for tier in tiers or (FOUR_BYTES,)}
    with patch.object(table, "TIERS", MappingProxyType({**table.TIERS, **more})):
        yield

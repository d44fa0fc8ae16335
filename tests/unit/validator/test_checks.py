"""Each tier has checks, and what they say of a share is what the tier says of the roots."""

from collections.abc import Callable
from dataclasses import fields, replace
from types import MappingProxyType

import pytest

from domain.proof.reasons import ShareReason
from pol.executor.names import Engine
from pol.rules.tiers import table as tiers
from pol.rules.tiers.tier import Tier
from tests.support.chain_market import digest
from tests.support.four_bytes import COUNTS, FOUR_BYTES, registered, within
from tests.unit.validator.trained import JOB, PART, Trained, opened_at, train
from validator.decide.records import ReplayOutcome
from validator.work.checks import table
from validator.work.checks.check import Checks
from validator.work.checks.exact import EXACT_CHECKS, check_segment
from validator.work.requests import SegmentCheck


def check_four_bytes(asked: SegmentCheck) -> ReplayOutcome:
    """Replay a segment, and compare what counts in the tier that lives in the tests."""
    found = check_segment(asked)
    if found.reason is not ShareReason.SEGMENT_MISMATCH:
        return found
    same = found.root[:COUNTS] == asked.end_root[:COUNTS]
    return replace(found, reason=ShareReason.NONE) if same else found


FOUR_BYTES_CHECKS = replace(EXACT_CHECKS, tier=FOUR_BYTES.name, check_segment=check_four_bytes)


BY_ROOT = tuple(tier for tier in tiers.all_tiers() if not tier.hardware)
"""The tiers in which roots are compared; ``test_tolerance.py`` is about the other one."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("share"))


def test_every_tier_has_checks() -> None:
    assert list(table.CHECKS) == list(tiers.tier_names())
    assert all(table.checks_of(name).tier == name for name in tiers.tier_names())


def test_an_unknown_tier_has_none() -> None:
    with pytest.raises(KeyError):
        table.checks_of("gold")


@pytest.mark.parametrize("tier", [*BY_ROOT, FOUR_BYTES], ids=lambda tier: tier.name)
@pytest.mark.parametrize(
    "claimed", [bytes, within, lambda root: digest("wrong", root)], ids=["same", "within", "wrong"]
)
def test_a_validator_finds_what_a_panel_would(
    tier: Tier,
    claimed: Callable[[bytes], bytes],
    trained: Trained,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would accept what is void later, or reject what it has to pay for."""
    checks = MappingProxyType({**table.CHECKS, FOUR_BYTES.name: FOUR_BYTES_CHECKS})
    monkeypatch.setattr(table, "CHECKS", checks)
    start, right = trained.ends(0)
    found = table.checks_of(tier.name).check_segment(request(trained, start, claimed(right)))
    with registered():
        agrees = tiers.tier_named(tier.name).agree(right, claimed(right))
    assert found.root == right
    assert (found.reason is ShareReason.NONE) is agrees


def request(trained: Trained, start_root: bytes, end_root: bytes) -> SegmentCheck:
    """Ask for the first segment of the share."""
    start = opened_at(trained.paths(0), trained.boundaries[0].metrics, start_root)
    return SegmentCheck(directory=JOB, part=PART, index=0, start=start, end_root=end_root, engine=Engine("numpy"))


def test_checks_travel_to_another_process() -> None:
    """They are called by name there, so each is at the top of its module."""
    for found in table.CHECKS.values():
        functions = [getattr(found, field.name) for field in fields(Checks) if field.name != "tier"]
        assert len(functions) == 7
        assert all("." not in function.__qualname__ for function in functions)

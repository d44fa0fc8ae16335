"""When a provider recomputes what a panel found wrong, and when it appeals."""

from dataclasses import replace

import pytest

from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.claims import price
from compute_provider.decide.contests import (
    APPEAL_SECONDS,
    STAKE_TIMES,
    compute_bond,
    contested_panel,
    find_contest,
    pays,
)
from compute_provider.decide.duties import decide
from compute_provider.decide.records import Contest, Shares, ShareWork, Stage
from compute_provider.decide.view import Look
from domain.params import local_params
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Ruling
from tests.unit.compute_provider import support as s
from tests.unit.compute_provider.contested import CLAIM, KEY, UNTIL, place, ruled

IN_TIME = UNTIL - APPEAL_SECONDS - 1


@pytest.mark.parametrize("dispute", [0, 3])
def test_a_ruling_against_a_segment_of_the_share_is_contested(dispute: int) -> None:
    order = ruled(place(4), place(2), place(3, ruling=Ruling.RIGHT), dispute=dispute)
    contest = find_contest(order, CLAIM, IN_TIME)
    assert contest == Contest(dispute, (2, 4))
    assert contested_panel(order, KEY, CLAIM.provider, contest) == order.panels[0]


def test_what_the_provider_cannot_know_or_need_not_defend_is_not_contested() -> None:
    other = place(place=AuditPlace(kind=AuditKind.SEGMENT, slot=KEY.slot + 1, issue=1, segment=2))
    update = place(place=AuditPlace(kind=AuditKind.UPDATE, slot=KEY.slot, issue=KEY.issue, segment=5))
    unserved = place(finding=Finding(AnswerKind.UNAVAILABLE, b"", 0))
    for order, clock in (
        (ruled(other), IN_TIME),
        (ruled(place(), other), IN_TIME),  # the other one would cost the bond
        (ruled(update), IN_TIME),
        (ruled(unserved), IN_TIME),
        (ruled(place(claim=b"")), IN_TIME),
        (ruled(place(ruling=Ruling.RIGHT)), IN_TIME),
        (ruled(place(), appellant="someone"), IN_TIME),
        (ruled(place()), IN_TIME + 1),
    ):
        assert find_contest(order, CLAIM, clock) is None
    assert find_contest(ruled(place()), replace(CLAIM, commitment=b"\2" * 32), IN_TIME) is None


def test_a_ruling_for_which_the_validator_pays_still_costs_the_credential() -> None:
    """Segment 1 is in the validator's duty."""
    assert find_contest(ruled(place(1)), CLAIM, IN_TIME) == Contest(0, (1,), is_liable=False)
    assert find_contest(ruled(place(1), place(2)), CLAIM, IN_TIME) == Contest(0, (1, 2), is_liable=False)


def test_a_comparison_of_states_costs_no_credential() -> None:
    outside = Finding(AnswerKind.OUTSIDE, b"", 0)
    assert find_contest(ruled(place(1, finding=outside)), CLAIM, IN_TIME) is None
    assert find_contest(ruled(place(2, finding=outside)), CLAIM, IN_TIME) == Contest(0, (2,))


def test_a_bond_of_many_auditors_does_not_pay() -> None:
    order = ruled(place())
    few, many = (compute_bond(order, order.panels[0], count, local_params()) for count in (4, 10**9))
    assert few < many
    assert not pays(order, order.panels[0], 1, many)
    assert pays(order, order.panels[0], 1, 1)


def test_a_larger_share_bond_is_worth_a_larger_appeal() -> None:
    order = ruled(place())
    leg = order.leg(KEY.leg)
    assert leg is not None
    value = price(order.order.terms, leg)
    bond = STAKE_TIMES * 2 * value
    assert not pays(order, order.panels[0], 1, bond + STAKE_TIMES * value)
    assert pays(order, order.panels[0], 3, bond + STAKE_TIMES * value)


def actions_of(*works: ShareWork) -> set[type]:
    _, actions = decide(Shares(works), Look(joined=True))
    return {type(action) for action in actions} & {do.Recheck, do.Appeal, do.Train}


def test_it_recomputes_first_and_appeals_only_if_the_share_is_right() -> None:
    work = ShareWork(s.task(), Stage.DELIVERED, contest=Contest(0, (2,)))
    shares = Shares((work,))
    assert actions_of(work) == {do.Recheck}
    right = receive.rechecked(shares, KEY, is_right=True)
    assert actions_of(*right.works) == {do.Appeal}
    assert actions_of(*receive.rechecked(shares, KEY, is_right=False).works) == set()
    # The ruling is seen again at each look.
    assert receive.contested(right, KEY, Contest(0, (2,))) == right
    assert receive.contested(right, KEY, None).works[0].contest is None


def test_no_share_is_trained_while_a_segment_is_recomputed() -> None:
    contested = ShareWork(s.task(), Stage.DELIVERED, contest=Contest(0, (2,)))
    ready = ShareWork(s.task(slot=1), Stage.READY)
    assert actions_of(contested, ready) == {do.Recheck}
    assert actions_of(contested, replace(ready, stage=Stage.TRAINING)) == {do.Train}

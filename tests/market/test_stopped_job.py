"""A job that leads to no number in mid-share: the network stops where one machine does, and pays what was done."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.errors import ConsumerError
from consumer.panels import describe_stop
from consumer.result import fetch_result
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, AuditKind, Ruling, ShareState
from pol.errors import NotFiniteStep
from pol.local.run import run_locally
from pol.rules.schedule import segment_work
from tests.support.market_network import MarketNetwork, market_network, quick_params
from tests.unit.pol.odd_jobs import none_at, write_odd_job

SEGMENT_STEPS, SEGMENTS = 2, 4
STEP, SLOT = 13, 1
"""In the third segment of the second round; other slots and steps have results."""
WHOLE = 2
PATIENT = 10**6
PARAMS = quick_params(handover_every=2)
"""The first round hands nothing over, so nothing is waited for."""
SECONDS = 600.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job") / "odd"
    write_odd_job(directory, none_at(2 * STEP + SLOT), segment_steps=SEGMENT_STEPS, segments=SEGMENTS)
    return directory


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory, job: Path) -> Iterator[MarketNetwork]:
    """One provider of the cluster ends its shares early, as if the job stopped there."""
    directory = tmp_path_factory.mktemp("stop")
    clusters = (("false_stop@0", ""), (), ())
    with market_network(directory, clusters, PARAMS, lambda _: PATIENT, job=job) as running:
        yield running


def test_a_job_stops_on_a_network_where_it_stops_at_home(market: MarketNetwork, job: Path) -> None:
    with pytest.raises(NotFiniteStep) as caught:
        run_locally(job)
    assert caught.value.step == STEP
    assert f"round 1, slot {SLOT}, step {STEP}" in str(caught.value)
    before = run_locally(job, rounds=1)

    market.bid("val0", "here")
    order = market.submit("here", deadline=1_200)
    on_chain = order.wait_closed(SECONDS)
    assert order.close_reason is CloseReason.STOPPED_BY_JOB
    assert order.leg.end_reason == LegEnd.STOPPED_BY_JOB
    first, last = on_chain.rounds
    assert first.next_root.hex() == before.rounds[0].state_root
    assert last.stopped is not None
    where = last.stopped
    assert (where.kind, where.slot, where.segment) == (AuditKind.SEGMENT, SLOT, WHOLE)
    panel = on_chain.panel(last.leg, last.round)
    assert panel is not None
    named = panel.places[0]
    assert (named.place, named.ruling) == (where, Ruling.RIGHT)
    assert named.finding is not None
    assert (named.finding.kind, named.finding.step) == (AnswerKind.STOPPED, STEP)

    # What was done before is paid, in the slot that went on as well.
    terms = on_chain.order.terms
    steps = STEP % SEGMENT_STEPS
    assert last.work == (SEGMENTS + WHOLE) * segment_work(terms) + steps * terms.step_work
    ended = on_chain.share(last.key.share(where.slot, where.issue))
    assert ended is not None
    assert ended.roots is not None
    assert (ended.roots.segments, ended.roots.steps) == (WHOLE, steps)
    assert on_chain.order.work_verified == first.work + last.work
    rounds = {payment.round for payment in on_chain.payments if payment.kind == "provider"}
    assert rounds == {0, 1}
    assert order.paid("validator") > 0

    # Who only said so was caught by its validator, and was not paid.
    liar = market.cheat("false_stop@0")
    verdicts = market.verdicts("val0", order.id)
    said = {ShareReason(row.reason) for row in verdicts if row.provider == liar.address}
    assert ShareReason.NOT_STOPPED in said
    wrong = [s for s in on_chain.shares if s.claim.provider == liar.address and s.reason]
    assert wrong
    assert all(share.state is ShareState.WRONG for share in wrong)

    told = describe_stop(on_chain)
    assert f"round 1, because the segment {WHOLE} of slot {SLOT} has no result (step {STEP})" in told
    scratch = market.layout.path / "scratch"
    with pytest.raises(ConsumerError) as refused:
        fetch_result(market.client, market.key, order.id, market.job, scratch)
    assert told in str(refused.value)

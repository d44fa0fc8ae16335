"""A validator is killed for good in the middle of a job: another one continues, and the result has the same bits."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from consumer.result import fetch_result
from consumer.states import left_roots, newest_verified, state_path
from domain.legs.records import LegState
from domain.market.records import OrderState
from pol.capture.build import build
from pol.job.checkpoint import MODEL_FILE
from pol.local.run import run_locally
from tests.same_bits.table import AVERAGE, NUMPY, Row, spec_of
from tests.support.market_network import market_network, quick_params
from tests.support.waiting import wait_until

PARAMS = quick_params(progress_base=40, accept_base=60, accept_max=300, rounds_ahead=1)
"""At most one closed round waits when the validator is killed."""
STRANGERS = ("val1.validator", "val2.validator", "val3.validator")
SECONDS = 600.0
SLOTS = 2
SPEED = 10**8

pytestmark = pytest.mark.timeout(900)


@pytest.mark.nightly  # the row lstm-validator of one result for one job kills a validator, too
def test_another_validator_continues_with_the_same_bits(tmp_path: Path) -> None:
    job = tmp_path / "job"
    spec = spec_of(Row("resume", "digits", (NUMPY,), SLOTS, AVERAGE))
    build(replace(spec, round_steps=10), job)
    local = run_locally(job, out=tmp_path / "local")
    assert local.model is not None
    clusters = ((NUMPY,), (NUMPY,), (), ())
    with market_network(tmp_path / "network", clusters, PARAMS, lambda _: SPEED, job=job) as market:
        market.bid("val0", "here")
        order = market.submit("here", deadline=3_000, keep=True)
        order.wait_state(OrderState.RUNNING, SECONDS)
        market.bid("val1", "here")
        copies = market.layout.path / "states"

        def has_copy() -> bool:
            on_chain = market.look(order)
            newest = newest_verified(on_chain)
            roots = left_roots(on_chain, newest[1]) if newest is not None else ()
            return bool(roots) and all(state_path(copies, root).exists() for root in roots)

        order.wait(lambda on_chain: on_chain.legs[0].verified > 0, "a verified round", SECONDS)
        # While strangers are paused, no other round is verified. The consumer has a copy of the last one that is.
        for name in STRANGERS:
            market.network.pause(name)
        wait_until(has_copy, "a copy of verified states", SECONDS)
        market.network.kill("val0.validator")
        for name in STRANGERS:
            market.network.resume(name)
        assert market.look(order).order.state is OrderState.RUNNING

        order.wait(lambda on_chain: len(on_chain.legs) > 1, "another leg", SECONDS)
        order.wait_verified(SECONDS)
        on_chain = market.look(order)
        first, *_, last = on_chain.legs
        assert (first.state, first.validator) == (LegState.FAILED, market.operator("val0"))
        assert first.verified > 0
        assert (last.validator, last.from_leg) == (market.operator("val1"), 1)
        assert last.first_round == first.next_round
        found = fetch_result(market.client, market.key, order.id, market.job, tmp_path / "scratch")
        digest = found.save(tmp_path / MODEL_FILE)
        assert digest == sha256(local.model.read_bytes()).digest()

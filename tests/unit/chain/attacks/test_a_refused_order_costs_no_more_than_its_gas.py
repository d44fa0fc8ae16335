"""Orders that auditors could not keep up with: a block does not search for what would help."""

import pytest

from domain.errors import TOO_SLOW_TO_AUDIT
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from pol.rules import panels
from tests.support.chain_harness import Chain, make_genesis
from tests.support.chain_market import CONSUMER, make_terms, submit

VALIDATORS = 60
STEPS = 2**31


def test_a_block_reads_each_promise_once_for_an_order_that_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the largest segment took 32 times as long, and its sender paid for none of it."""
    read = []
    promised_ms = panels.promised_ms

    def count(terms: JobTerms, params: OrderParams, speed: int, rate: int) -> int:
        read.append(speed)
        return promised_ms(terms, params, speed, rate)

    monkeypatch.setattr(panels, "promised_ms", count)
    chain = Chain(make_genesis((CONSUMER,), tuple(f"v{number}" for number in range(VALIDATORS))), checked=False)
    terms = make_terms(rounds=1, slots=1, round_steps=STEPS, segment_steps=STEPS, batch=1, step_work=10**9)
    chain.refused(TOO_SLOW_TO_AUDIT, submit(terms=terms, deposit=10**9), field="terms.segment_steps")
    assert len(read) == VALIDATORS

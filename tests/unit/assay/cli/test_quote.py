"""What a quote says about the rounds that providers train ahead of the audits."""

from dataclasses import replace
from pathlib import Path

import pytest

from consumer.submit import Quote
from domain.market.queries import SimulateMatchResponse
from domain.market.records import Bid, Offer
from domain.params import local_params
from pol.rules.cover import count_paid
from pol.rules.schedule import total_work
from tests.support.chain_market import make_terms
from tests.unit.assay.support import assay
from tests.unit.pol.mlp import write_mlp_job

TERMS = make_terms(rounds=30)
PARAMS = local_params()
BEST = Bid(
    b"\x01" * 32, "v", Offer(price=10**12, slot_speed=10**9, slots=2, tiers=("exact",), providers_bps=8_000), 1, 1, 1
)


def quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *bids: Bid, limit: int = 0) -> tuple[Quote, str]:
    """Return a quote with these bids, and what the command says about it."""
    found = Quote(TERMS, SimulateMatchResponse(bids, ()), PARAMS, price_limit=limit)
    monkeypatch.setattr("consumer.submit.quote", lambda *_: found)
    job = tmp_path / "job"
    write_mlp_job(job)
    ran = assay("quote", job, "--node", "127.0.0.1:9", home=tmp_path)
    return found, ran.out


@pytest.mark.parametrize("price", [10**12, 10**14])
def test_a_quote_says_how_far_providers_train_ahead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, price: int
) -> None:
    """The job bond of the best bid pays the shares of so many rounds, and of the one that is trained."""
    bid = replace(BEST, offer=replace(BEST.offer, price=price))
    found, said = quoted(monkeypatch, tmp_path, bid)
    rules = PARAMS.for_order()
    bond = max(rules.payload_fee, total_work(TERMS) * price * rules.job_bond_bps // 10**19)
    assert found.rounds_covered == count_paid(TERMS, rules, bond, price, 8_000) > 0
    line = f"they train up to {found.rounds_covered} rounds ahead of the audits"
    assert f"if its whole job bond covers the providers of the best bid, {line}" in said


def test_a_quote_without_bids_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, said = quoted(monkeypatch, tmp_path)
    assert found.rounds_covered == 0
    assert "ahead of the audits" not in said

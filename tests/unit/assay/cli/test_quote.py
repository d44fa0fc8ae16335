"""A quote says how many rounds providers train ahead of the audits, and compares tiers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.request import Request
from consumer.submit import CheckedOrder, Quote
from domain.market.queries import SimulateMatchResponse
from domain.market.records import Bid, JobTerms, Offer
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


def compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *tiers: str, options: Sequence[str] = (), terms: JobTerms = TERMS
) -> tuple[dict[str, dict[str, Any]], int]:
    """Return what ``quote --tiers`` says of each tier if one bid offers ``tiers``, and its exit code."""
    bid = replace(BEST, offer=replace(BEST.offer, tiers=tiers))
    checked = CheckedOrder(deposit=10**9, audit_ms=500, window=40, eligible=3, audit_floor=10**6)

    def quote(_client: object, _job: object, asked: Request) -> Quote:
        fits = asked.conditions.choose_tier(tiers)
        return Quote(terms, SimulateMatchResponse((bid,) if fits else (), ()), PARAMS, checked=checked)

    monkeypatch.setattr("consumer.tiers.quote", quote)
    job = tmp_path / "job"
    write_mlp_job(job)
    ran = assay("quote", job, "--tiers", *options, "--node", "127.0.0.1:9", "--output", "json", home=tmp_path)
    return {each["tier"]: each for each in json.loads(ran.out)["tiers"]}, ran.code


def test_tiers_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lot draws fewer rounds for less money, and providers have more at stake."""
    found, code = compared(monkeypatch, tmp_path, "exact", "sampled")
    exact, sampled = found["exact"], found["sampled"]
    assert code == 0
    assert PARAMS.for_order().audit_rate_min <= sampled["rate_bps"] < exact["rate_bps"] == 10_000
    for name in ("cost", "found_in_round", "found_in_job"):
        assert sampled[name] < exact[name], name
    for name in ("seconds", "share_bond"):
        assert sampled[name] > exact[name], name
    assert sampled["challengers"] == "anyone with a bond"


def test_an_order_that_takes_credentials_is_shown_with_their_rate_and_bond(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The lower chance of a panel costs less, and needs a higher bond of each share."""
    terms = replace(TERMS, rounds=100)  # whose job bond allows the least chance
    usual, _ = compared(monkeypatch, tmp_path, "exact", "sampled", terms=terms)
    found, code = compared(monkeypatch, tmp_path, "exact", "sampled", options=["--attested"], terms=terms)
    rules = PARAMS.for_order()
    assert code == 0
    assert found["sampled"]["attested"]
    assert rules.attested_rate_min <= found["sampled"]["rate_bps"] < usual["sampled"]["rate_bps"]
    assert found["sampled"]["cost"] < usual["sampled"]["cost"]
    assert found["sampled"]["share_bond"] > usual["sampled"]["share_bond"]
    assert found["exact"]["rate_bps"] == usual["exact"]["rate_bps"]
    assert not usual["sampled"]["attested"]


def test_a_tier_that_no_bid_offers_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, code = compared(monkeypatch, tmp_path, "exact")
    assert code == 0
    assert found["sampled"]["why_not"]
    assert not found["exact"]["why_not"]
    found, code = compared(monkeypatch, tmp_path, "other")
    assert code != 0
    assert all(each["why_not"] for each in found.values())

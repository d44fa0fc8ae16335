"""A consumer and a watchtower recompute places of a running order; a false challenge then pays its panel."""

import json
from pathlib import Path

import pytest

from chain.client.sender import TxSender
from consumer.disputes import describe_dispute
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import DisputeState
from domain.market.reasons import CloseReason
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding
from tests.support.market_network import market_network, quick_params
from tests.unit.assay.support import assay, in_process
from validator.watch.challenge import compute_bond, send_challenge
from validator.watch.places import choose_place
from validator.watch.recompute import PlaceCheck

SECONDS = 600.0
WINDOW = 120
"""Seconds (chain clock): long enough for a busy machine to recompute a place before the round is verified."""

pytestmark = pytest.mark.timeout(900)


def is_audited(on_chain: OrderResponse) -> bool:
    """Return whether the panel of the first round has decided."""
    panel = on_chain.panel(1, 0)
    return panel is not None and panel.is_decided


def test_recomputing_places_and_a_false_challenge(tmp_path: Path) -> None:
    params = quick_params(round_window=WINDOW)
    # One round: the order waits for a window after each of them, and for another one before it settles.
    with market_network(tmp_path / "network", (("",), (), (), ()), params, lambda _: 200_000, rounds=1) as market:
        market.bid("val0", "here")
        order = market.submit("here", deadline=1_800)
        order.wait(is_audited, "the first panel to decide", SECONDS)
        home = market.layout.consumer_home
        together = ("--slot", 1, "--segment", 0, "--machines", 2)
        for place in ((), ("--slot", 1, "--update"), ("--aggregation",), together):
            ran = assay("challenge", order.id.hex(), "--round", 0, *place, "--dry-run", "--output", "json", home=home)
            assert ran.code == 0, ran.err
            found = json.loads(ran.out)
            assert (found["agrees"], found["challenge"]) == (True, None), found
        name = order.id.hex()
        for machines in (1, 2):
            watch = ("watchtower", "--dry-run", "--for", "8s", "--order", name, "--machines", machines)
            ran = in_process(*watch, "--output", "json", home=home)
            assert ran.code == 0, ran.err
            told = [json.loads(line) for line in ran.out.splitlines()]
            assert told[-1]["event"] == "summary"
            assert told[-1]["right"] == len(told) - 1 >= 1, told
        assert (Path(home) / "watchtower" / "groups" / "places").is_dir()
        cluster = ("--machines", 2, "--executor", "ray://127.0.0.1:1")
        for command in (("challenge", order.id.hex()), ("watchtower", "--dry-run")):
            ran = assay(*command, *cluster, home=home)
            assert (ran.code, "needs a token" in ran.err) == (1, True), ran.err
        ran = assay("challenge", order.id.hex(), "--round", 7, home=home)
        assert ran.code != 0
        assert "round 7 is not a closed round" in ran.err
        # What no honest challenger does: it claims a root that nobody computes.
        on_chain = market.look(order)
        closed = on_chain.round(1, 0)
        assert closed is not None
        chosen = choose_place(on_chain, closed, bytes(32)) or AuditPlace(AuditKind.SEGMENT, 0, 1, 0)
        lie = PlaceCheck(chosen, Finding(AnswerKind.FINISHED, bytes(32), 0), b"", agrees=False)
        bond = compute_bond(market.client, on_chain, closed, lie)
        sender = TxSender(market.client, market.key)
        sent = send_challenge(market.client, sender, market.key.secret, closed, lie, bond)
        on_chain = order.wait_closed(SECONDS)
        assert order.close_reason is CloseReason.SETTLED
        (dispute,) = market.client.query(DisputesRequest(order.id)).disputes
        assert (dispute.key, dispute.state) == (sent.key, DisputeState.FAILED)
        assert "was wrong" in describe_dispute(dispute, 0)
        seats = [seat for seat in market.seats(order) if seat.dispute == dispute.number]
        assert len(seats) >= on_chain.order.params.auditors
        assert all(answer.root != lie.finding.root for seat in seats for answer in seat.answers)
        assert 0 < dispute.burnt < bond
        ran = assay("order", "show", order.id.hex(), home=home)
        assert "Challenges" in ran.out

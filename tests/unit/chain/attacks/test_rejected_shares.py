"""Shares that their validator rejects, to take their work or their pay.

Metrics used to be part of a commitment, although no panel recomputed them: one changed bit, and the chain burnt an
honest bond and paid the thief. A silent twin was paid 1.74 times by an honest validator. Of seven right shares in a
slot, six were paid nothing.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from chain.state_machine.registry.tables import VALIDATORS
from domain.params import local_params
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, Ruling, SeatAnswer
from pol.rules.commitment import update_claim
from tests.support.chain_market import BOND, Market, Trace, sign_share

VALUE = 38_000


def finish(market: Market, order_id: bytes) -> None:
    market.answer_all(order_id, 0)
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified


def close_with(market: Market, order_id: bytes, reason: ShareReason, *traces: Trace) -> None:
    """Commit the traces of the first slot one after the other, each in the place of the one before; close the round."""
    market.commit(order_id, traces[0], market.trace(order_id, 1, provider="v0p1"))
    for old, new in pairwise(traces):
        market.commit(order_id, new, reject=[(old.ref, int(reason))])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))


def copied_with_one_bit_changed(blocks: int) -> tuple[Market, bytes]:
    """Return a market whose validator took a copy of ``v0p0``'s work with one bit of a metric changed.

    ``blocks`` pass before the order, so that another beacon draws the update to audit.
    """
    market = Market(validators=6)
    for _ in range(blocks):
        market.chain.block()
    order_id = market.run()
    honest = market.trace(order_id, 0, provider="v0p0")
    roots = replace(honest.roots, metrics=(honest.roots.metrics[0] ^ 1,))
    thief = market.claim(order_id, 0, issue=2, provider="v0p1", roots=roots)
    copied = Trace(sign_share(thief), roots, honest.leaves)
    market.traces[order_id, thief.leg, thief.round, copied.ref] = copied
    close_with(market, order_id, ShareReason.SEGMENT_MISMATCH, honest, copied)
    market.wait_stage(order_id)
    return market, order_id


def audited_slot(market: Market, order_id: bytes) -> int:
    places = market.panel(order_id, 0).places
    return next(place for place in places if place.place.kind is AuditKind.UPDATE).place.slot


def test_one_bit_of_a_metric_takes_no_bond_and_no_pay() -> None:
    """Where the update of slot 0 is not drawn, nobody finds the lie: the honest provider is paid all the same."""
    market, order_id = next(made for made in map(copied_with_one_bit_changed, range(10)) if audited_slot(*made) != 0)
    before = market.chain.worth("v0p0")
    finish(market, order_id)
    paid = {event.get("right"): event.get("paid") for event in market.chain.seen("share.compared")}
    assert paid == {"true": str(VALUE)}
    assert market.chain.worth("v0p0") == before + VALUE
    assert market.chain.bond("v0p0") == BOND


def honest_answers(market: Market, order_id: bytes, honest: Trace) -> tuple[SeatAnswer, ...]:
    right = update_claim(honest.roots.update_root, honest.roots.local_out, honest.roots.metrics)
    places = market.panel(order_id, 0).places
    return tuple(
        replace(answer, root=right) if places[answer.place].place.kind is AuditKind.UPDATE else answer
        for answer in market.answers(order_id)
    )


def test_a_published_loss_that_is_a_lie_voids_the_round_where_its_update_is_drawn() -> None:
    for blocks in range(10):
        market = Market(validators=6)
        for _ in range(blocks):
            market.chain.block()
        order_id = market.run()
        market.commit(order_id, *market.traces_of_round(order_id))
        market.wait_drawn(order_id)
        message, close = market.close_messages(order_id)
        honest, *others = message.shares
        lie = replace(honest, roots=replace(honest.roots, metrics=(honest.roots.metrics[0] ^ 1,)))
        market.chain.ok(replace(message, shares=(lie, *others)), close)
        places = market.wait_stage(order_id).places
        number = next(at for at, place in enumerate(places) if place.place.kind is AuditKind.UPDATE)
        if places[number].place.slot == 0:
            break
    trace = next(t for key, t in market.traces.items() if key[0] == order_id and t.ref.slot == 0)
    market.say_all(order_id, lambda: honest_answers(market, order_id, trace))
    assert market.all_of(order_id).panels[0].places[number].ruling is Ruling.WRONG
    assert market.round_of(order_id, 1, 0).void


@pytest.mark.parametrize("reason", [ShareReason.NO_ANSWER, ShareReason.LATE])
def test_a_silent_twin_earns_nothing(reason: ShareReason) -> None:
    """The twin commits to the right work and never delivers; the other twin delivers the same under the next issue."""
    market = Market(validators=6)
    order_id = market.run()
    had = market.chain.bond("v0"), VALIDATORS.must(market.chain.overlay(), "v0").stake
    twin, other = (market.trace(order_id, 0, issue=n, provider=f"v0p{n - 1}") for n in (1, 2))
    before = market.chain.worth("v0p0")
    close_with(market, order_id, reason, twin, other)
    finish(market, order_id)
    assert market.chain.worth("v0p0") == before
    assert market.chain.bond("v0p0") == BOND
    assert (market.chain.bond("v0"), VALIDATORS.must(market.chain.overlay(), "v0").stake) == had


def test_every_right_share_that_was_rejected_as_a_mismatch_is_paid_by_who_rejected_it() -> None:
    market = Market(local_params().replace(job_bond_bps=10_000), providers=8, validators=6)
    order_id = market.run()
    traces = [market.trace(order_id, 0, issue=n + 1, provider=f"v0p{n}") for n in range(7)]
    before = {f"v0p{n}": market.chain.worth(f"v0p{n}") for n in range(6) if n != 1}
    close_with(market, order_id, ShareReason.UPDATE_MISMATCH, *traces)
    finish(market, order_id)
    assert {name: market.chain.worth(name) - worth for name, worth in before.items()} == dict.fromkeys(before, VALUE)

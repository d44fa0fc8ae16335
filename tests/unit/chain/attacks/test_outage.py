"""An outage of seconds in which no seat can answer.

One silence used to halve a promise, and with it end the seats of a validator in every order under way: the winner's
accomplice was then alone eligible, and verified what it liked.
"""

from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.params import local_params
from domain.proof.records import Ruling
from tests.support.chain_market import Market, make_terms, submit

STAKE = 10**10


def test_a_stage_in_which_nobody_answers_costs_nobody_anything_and_is_repeated() -> None:
    market = Market(local_params().replace(auditors=3), validators=8)
    order_id = market.run(submit(deposit=600_000))
    market.train_round(order_id)
    market.wait_stage(order_id)
    market.say(order_id, {})
    market.wait_stage(order_id, stage=2)
    assert market.seated(order_id) == market.seated(order_id, stage=2)
    market.say(order_id, dict.fromkeys(market.seated(order_id), market.answers(order_id)))
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    found = [VALIDATORS.must(market.chain.overlay(), name) for name in market.validators]
    assert {(each.stake, each.audit_speed) for each in found} == {(STAKE, 10**10)}


def test_an_accomplice_is_not_left_alone_by_the_silence_of_others() -> None:
    """The honest strangers promise less than the order needs; they sit all the same."""
    params = local_params().replace(auditors=3, promise_wait=10**6, progress_base=10**5)
    market = Market(params, validators=8)
    order_id = market.run(submit(terms=make_terms(rounds=2), deposit=600_000, deadline=10**6))

    def lower(overlay: Overlay) -> None:
        for name in market.validators[1:-1]:
            VALIDATORS.update(overlay, name, audit_speed=1, audit_rate=1, promise_halved_at=1)

    market.chain.change(lower)
    market.train_round(order_id)
    market.wait_stage(order_id)
    accomplice = market.validators[-1]
    lie = market.unavailable(order_id)
    said = {name: lie if name == accomplice else market.answers(order_id) for name in market.seated(order_id)}
    assert set(said) - {accomplice}
    market.say(order_id, said)
    for stage in (2, 3, 4):
        if not market.panel(order_id, 0).undecided:
            break
        market.wait_stage(order_id, stage=stage)
        market.say(order_id, dict.fromkeys(market.seated(order_id, stage=stage), market.answers(order_id)))
    assert {place.ruling for place in market.panel(order_id, 0).places} == {Ruling.RIGHT}

"""A winner names mirrors when it closes a round.

A mirror may be a friend of the winner, a stranger that the winner would like to keep out of the panel, the winner
itself, or an account without a daemon. A name changes nothing but where seats may also fetch.
"""

from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import BAD_FIELD, LIMIT_REACHED
from domain.limits import MIRRORS_MAX
from domain.params import local_params
from tests.support.chain_market import Market, submit


def closable(validators: int = 4) -> tuple[Market, bytes, tuple[str, ...]]:
    """Return a market with an order whose first round can be closed, and the validators that do not serve it."""
    market = Market(local_params().replace(auditors=3), validators=validators)
    order_id = market.run(submit(deposit=10**9))
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    market.accept_shares(order_id)
    winner = market.leg(order_id).validator
    return market, order_id, tuple(sorted(name for name in market.validators if name != winner))


def test_a_stranger_that_is_named_as_a_mirror_still_sits_in_the_panel() -> None:
    """Otherwise a winner would name the honest ones, and be judged by the others."""
    market, order_id, strangers = closable()
    market.chain.ok(market.close_message(order_id, mirrors=strangers))
    assert market.round(order_id, 0).mirrors == strangers
    market.wait_stage(order_id)
    assert sorted(market.seated(order_id)) == list(strangers)


def test_mirrors_are_few_and_distinct_validators_other_than_the_winner() -> None:
    market, order_id, strangers = closable()
    other = strangers[0]
    for code, mirrors in (
        (BAD_FIELD, (market.leg(order_id).validator,)),
        (BAD_FIELD, (other, other)),
        (BAD_FIELD, ("carol",)),
        (LIMIT_REACHED, (other,) * (MIRRORS_MAX + 1)),
    ):
        market.chain.refused(code, market.close_message(order_id, mirrors=mirrors), field="mirrors")
    assert not market.leg(order_id).closed


def test_a_mirror_that_never_agreed_owes_nothing() -> None:
    market, order_id, strangers = closable(validators=6)
    mirrors = strangers[:MIRRORS_MAX]
    stakes = [VALIDATORS.must(market.chain.overlay(), name).stake for name in mirrors]
    market.chain.ok(market.close_message(order_id, mirrors=mirrors))
    market.wait_stage(order_id)
    market.say(order_id, dict.fromkeys(market.seated(order_id), market.answers(order_id)))
    market.chain.pass_until(market.round(order_id, 0).window_ends)
    assert market.round(order_id, 0).verified
    assert [VALIDATORS.must(market.chain.overlay(), name).stake for name in mirrors] == stakes

"""Orders whose first leg failed after a verified round, and panels about the states that this round left."""

from collections.abc import Callable

from domain.keys import PanelKey
from domain.legs.messages import MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.queries import SeatsRequest
from domain.proof.records import AnswerKind, Panel, PanelSeat, SeatAnswer
from pol.rules.states import panel_number
from pol.rules.tiers.answers import answer_commitment
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import Market, digest, make_terms, submit

ROUNDS = 3
PARAMS = local_params().replace(round_window=20)

Said = Callable[[Market, Panel], SeatAnswer]
"""The answer of a seat in the open stage of a panel."""


def stopped(
    deposit: int = 2 * ROUNDS * 180_000,
    done: int = 1,
    params: Params = PARAMS,
    validators: int = 7,
    rounds: int = ROUNDS,
) -> tuple[Market, bytes]:
    """Return an order whose validator stopped after ``done`` verified rounds, and that another one has won."""
    names = tuple(f"v{number}" for number in range(validators))
    market = Market(params, validators=validators, bidders=names)
    terms = make_terms(rounds=rounds)
    order_id = market.run(submit(terms=terms, deposit=deposit, deadline=100_000))
    for round in range(done):
        market.train_round(order_id)
        market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    assert market.leg(order_id).verified == done
    market.chain.ok(MsgStopOrder(market.leg(order_id).validator, order_id, 1))
    wait_match(market, order_id)
    return market, order_id


def wait_match(market: Market, order_id: bytes) -> Leg:
    for _ in range(8):
        if market.order(order_id).state is OrderState.MATCHED:
            return market.leg(order_id)
        market.chain.block()
    raise AssertionError("the order found no match")


def lack(market: Market, order_id: bytes) -> Panel:
    """Let the validator of the matched leg say that it cannot fetch the states; return the panel."""
    leg = market.leg(order_id)
    market.chain.ok(MsgDeclineOrder(leg.validator, order_id, leg.number, int(LegEnd.STATE_UNAVAILABLE)))
    market.chain.block()
    return panel_of(market, order_id)


def panel_of(market: Market, order_id: bytes) -> Panel:
    """Return the panel for which the validator of the current leg asked last."""
    leg = market.leg(order_id)
    asked = leg.asked - 1 if leg.asked % 2 == 0 else leg.asked
    number = panel_number(leg) - (leg.asked - asked)
    key = PanelKey(order_id, leg.from_leg, leg.first_round - 1, number)
    return next(panel for panel in market.all_of(order_id).panels if panel.key == key)


def fetched(_: Market, panel: Panel) -> SeatAnswer:
    """Return the answer of a seat that fetched the states."""
    made, *earlier = (digest("states", seed) for seed in (panel.seed, *panel.earlier_seeds))
    return SeatAnswer(0, AnswerKind.FINISHED, panel.places[0].claim, made, 0, tuple(earlier))


def missing(_: Market, __: Panel) -> SeatAnswer:
    """Return the answer of a seat that could not fetch the states."""
    return SeatAnswer(0, AnswerKind.UNAVAILABLE, b"", b"", 0)


def seats_of(market: Market, panel: Panel) -> tuple[PanelSeat, ...]:
    found = market.chain.ask(SeatsRequest(*panel.key)).seats
    return tuple(seat for seat in found if seat.stage == panel.stage)


def wait_open(market: Market, key: PanelKey, stage: int) -> Panel:
    for _ in range(200):
        panel = next(p for p in market.all_of(key.order_id).panels if p.key == key)
        if panel.stage >= stage and panel.is_open:
            return panel
        market.chain.block()
    raise AssertionError("the stage did not begin")


def say(market: Market, panel: Panel, said: Said) -> Panel:
    """Let all seats of a panel give an answer, stage after stage, until the panel is over; return it."""
    key = panel.key
    for stage in range(1, 7):
        panel = wait_open(market, key, stage)
        answers = (said(market, panel),)
        names = [seat.validator for seat in seats_of(market, panel)]
        commits, reveals = [], []
        for name in names:
            salt = digest("salt", name)
            made = answer_commitment(CHAIN_ID, key, panel.stage, name, salt, answers)
            commits.append(MsgCommitAnswer(name, key.order_id, key.leg, key.round, panel.stage, made, key.dispute))
            reveals.append(
                MsgRevealAnswer(name, key.order_id, key.leg, key.round, panel.stage, salt, answers, (), key.dispute)
            )
        market.chain.ok(*commits)
        market.chain.ok(*reveals)
        for _ in range(4):
            market.chain.block()
            panel = next(p for p in market.all_of(key.order_id).panels if p.key == key)
            if panel.is_settled:
                return panel
    raise AssertionError("the panel does not end")

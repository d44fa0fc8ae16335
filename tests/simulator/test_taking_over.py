"""A wrong share makes a round void: the daemons go on with the other shares of the round, and train one slot again."""

from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.proof.records import ShareState
from localnet.simulator.behaviours import Cheat
from localnet.simulator.scenarios.markets import Market, make_world

CHEAT = "v0p0"


def test_only_the_wrong_slot_is_trained_again_and_every_other_share_is_paid() -> None:
    market = Market(
        validators=5,
        slots=3,
        segments=8,
        rounds=2,
        swaps={CHEAT: lambda: Cheat(CHEAT, ("middle",), 100)},
        params={"duty_segments": 1},
    )
    for seed in range(1, 120):  # until a panel finds in the first round what no lot of the validator drew
        world = make_world(market, seed)
        world.run()
        answer = world.order(world.orders[0].order_id)
        first = answer.legs[0]
        if first.end_reason == LegEnd.WRONG_SHARE and not first.verified:
            break
    assert (first.end_reason, first.verified) == (LegEnd.WRONG_SHARE, 0)
    assert answer.order.close_reason == CloseReason.SETTLED
    second = answer.legs[1]
    assert (second.validator, second.first_round) == (first.validator, first.next_round)
    shares = answer.shares_of(2, second.first_round).values()
    taken = [share for share in shares if share.claim.leg == 1]
    again = [share for share in shares if share.claim.leg == 2]
    assert (len(taken), len(again)) == (2, 1)
    assert {share.state for share in shares} == {ShareState.ACCEPTED}
    assert {share.claim.provider for share in again}.isdisjoint({CHEAT})
    # No provider trained a share that was taken over a second time.
    slots = {share.claim.slot for share in taken}
    trained = [key for key in world.trainers if key.leg == 2 and key.round == second.first_round]
    assert slots.isdisjoint(key.slot for key in trained)
    roots = world.job(answer.order.id).result_roots()
    assert [closed.next_root for closed in answer.rounds if closed.verified] == roots

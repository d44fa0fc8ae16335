"""The demo tells each thing once, when it happened, in names that people know."""

from assay.cli.story import Story
from domain.reasons import ShareReason
from tests.support.told_market import ToldMarket


def test_the_story_of_an_order_with_a_cheat() -> None:
    market = ToldMarket()
    story = Story("the order", {"v0": "val0", "v0p0": "ada", "v0p1": "ben"})
    order_id = market.run()

    def told(loss: float | None = None) -> list[str]:
        return story.tell(market.all_of(order_id), loss)

    matched, accepted = told()
    assert matched.startswith("the order goes to val0, the cheapest that fits: ")
    assert accepted == "val0 has tried the job, and accepts the order: its providers train"
    wrong = market.trace(order_id, 0, "skipped", provider="v0p0")
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, wrong, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    assert told() == []
    market.commit(order_id, again, reject=[(wrong.ref, int(ShareReason.SEGMENT_MISMATCH))])
    (caught,) = told()
    assert caught.startswith("ada's share of round 0, slot 0 is rejected: training again")
    market.wait_drawn(order_id)
    market.chain.ok(market.close_message(order_id))
    (closed,) = told(0.25)
    assert closed == "round 0 of the order is closed, trained by ben; loss 0.250"
    market.answer_all(order_id, 0)
    market.chain.pass_time(market.order(order_id).window + 2)
    (right,) = told(0.25)
    assert right.startswith("round 0 of the order is right, say v1, v2")
    assert right.endswith("ASSAY paid")
    market.settle(order_id)
    assert told()[-1] == "the order is settled: what was not spent is back"
    assert told() == []

"""The demo tells each thing once, when it happened, in names that people know."""

from dataclasses import replace

from assay.cli.story import OrderFollower, cheat_sentence
from domain.proof.reasons import ShareReason
from tests.support.told_market import ToldMarket


def test_the_story_of_an_order_with_a_cheat() -> None:
    market = ToldMarket()
    story = OrderFollower("the order", {"v0": "val0", "v0p0": "ada", "v0p1": "ben"})
    order_id = market.run()

    def told(loss: float | None = None) -> list[str]:
        return story.news(market.all_of(order_id), loss)

    matched, accepted = told()
    assert matched.startswith("the order goes to val0, the cheapest that fits: ")
    assert accepted == "val0 has tested the job and accepts the order: its providers train"
    wrong = market.trace(order_id, 0, "skipped", provider="v0p0")
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, wrong, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    assert told() == []
    market.commit(order_id, again, reject=[(wrong.ref, int(ShareReason.SEGMENT_MISMATCH))])
    (caught,) = told()
    assert caught.startswith("ada's share of round 0, slot 0 is rejected: training again")
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    (closed,) = told(0.25)
    assert closed == "round 0 of the order is closed, trained by ben; loss 0.250"
    market.answer_all(order_id, 0)
    seats = ", ".join(sorted(market.seated(order_id)))
    market.chain.pass_time(market.order(order_id).window + 2)
    (right,) = told(0.25)
    assert right.startswith(f"round 0 of the order is verified: {seats} recomputed ")
    assert right.endswith("ASSAY paid")
    undrawn = OrderFollower("the order", {}).news(replace(market.all_of(order_id), panels=()))
    assert any(line.startswith("round 0 of the order is verified: no panel was drawn; ") for line in undrawn)
    market.settle(order_id)
    # The order closes when the provider of the rejected share had the time to stand for it.
    market.chain.pass_until(market.round(order_id, 0).closed_at + 62)
    market.chain.block()
    assert told()[-1] == "the order is settled: the unspent deposit is refunded"
    assert told() == []


def test_an_leg_that_fails_is_told_once() -> None:
    market = ToldMarket()
    story = OrderFollower("the order", {"v0": "val0", "v0p0": "ada"})
    order_id = market.run()
    story.news(market.all_of(order_id))
    market.commit(order_id, market.trace(order_id, 0, provider="v0p0"))
    market.chain.pass_time(market.order(order_id).params.progress_base * 10)
    told = story.news(market.all_of(order_id))
    assert told[0] == "val0 loses the order: the validator did not close a round in time"
    assert not any("rejected" in line for line in told)
    assert not any("loses" in line for line in story.news(market.all_of(order_id)))


def test_what_became_of_the_cheat_is_told_in_a_sentence() -> None:
    names = {"assay1p": "prov0"}
    caught = {
        "meant": "assay1p",
        "provider": "assay1p",
        "round": 0,
        "slot": 3,
        "segment": 2,
    }
    told = cheat_sentence(caught, names, segment_steps=5, round_steps=40)
    assert told.startswith("the cheat: prov0 claimed to have trained slot 3 of round 0, but had not;")
    assert "the lot fell on steps 10 to 14" in told
    later = cheat_sentence(caught | {"round": 2}, names, segment_steps=5, round_steps=40)
    assert "the lot fell on steps 90 to 94" in later
    assert told.endswith("prov0 was not paid")
    stood = cheat_sentence(caught | {"stood": "wrong"}, names, segment_steps=5, round_steps=40)
    assert (
        stood == told + "; it stood for its share all the same, and a panel found the share wrong, so its bond is lost"
    )
    assert "the update at its end" in cheat_sentence(caught | {"segment": 8}, names, 5, 40)
    late = {
        "meant": "assay1p",
        "provider": "",
        "round": -1,
        "slot": -1,
        "segment": -1,
    }
    told = cheat_sentence(late, names, 5, 40)
    assert told.startswith("the cheat: prov0 committed its untrained share too late")
    assert told.endswith("run the demo again when fewer other programs run")

"""The console says what an order waits for in the words of commands, at each of its states."""

from console.story import build_story
from console.waits import waiting_of
from consumer.waiting import waiting
from consumer.words import Asker, list_failures, what_helps
from tests.support.told_market import ToldMarket, unmatched
from tests.unit.console.conftest import Told


def sentences(market: ToldMarket, order_id: bytes, now: int) -> tuple[str, str]:
    """Return what the command line says and what the console says."""
    on_chain = market.all_of(order_id)
    unmatched = on_chain.order.unmatched
    said = waiting(
        on_chain,
        now,
        reason=list_failures(unmatched),
        remedy=what_helps(unmatched, 0, Asker.SHELL),
        asker=Asker.SHELL,
    )
    story = build_story(event for event in market.logged if order_id.hex() in str(event.attributes))
    assert story is not None
    return str(said), str(waiting_of(story, now, lambda operator: operator))


def test_both_say_the_same_from_open_to_closed() -> None:
    market = ToldMarket()
    waits = unmatched(market)
    told = [sentences(market, waits, 5)]
    order_id = market.submit()
    told.append(sentences(market, order_id, 5))
    market.accept(order_id)
    told.append(sentences(market, order_id, 5))
    market.commit(order_id, market.trace(order_id, 0, provider="v0p0"))
    told.append(sentences(market, order_id, 5))
    market.commit(order_id, market.trace(order_id, 1, provider="v0p1"))
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.train_round(order_id)
    told.append(sentences(market, order_id, 5))
    market.wait_stage(order_id)
    told.append(sentences(market, order_id, 5))
    market.answer_all(order_id, 0)
    told.append(sentences(market, order_id, 5))
    for by_command, by_console in told:
        assert by_console == by_command
    assert len({by_console for _, by_console in told}) >= 5


def test_the_page_of_an_order_says_what_it_waits_for(told: Told) -> None:
    text = told.get(f"/orders/{told.waiting.hex()}").text
    assert "It waits for a bid" in text
    assert "its deposit is refunded" in text
    assert "It waits for" not in told.get(f"/orders/{told.settled.hex()}").text

"""What audits need when those who did the work are gone: the validator has it, or computes it again."""

from collections.abc import Iterator

import pytest

from consumer.result import fetch_result
from domain.records import OrderState
from tests.support.market_network import MarketNetwork, market_network, quick_params
from tests.support.waiting import wait_until

PARAMS = quick_params(round_window=60, segments_drawn=1, audit_bps=5_000, audit_places_max=9)
"""Auditors replay 5 of the 12 places of a round; the validator has opened what 6 of them need, at most. The window is
longer than a killed daemon takes to come back on a busy machine; nothing here waits for its end."""
ROUNDS = 2
SECONDS = 100.0

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarketNetwork]:
    directory = tmp_path_factory.mktemp("after")
    with market_network(directory, (("",), (), ()), PARAMS) as running:
        yield running


def test_audits_are_served_when_the_provider_is_gone_and_the_daemon_was_killed(
    market: MarketNetwork,
) -> None:
    market.bid("val0", "here")
    order = market.submit("here")
    # Before the lot of the last round's audit is drawn: nobody knows yet which states will be needed.
    wait_until(lambda: len(market.look(order).rounds) == ROUNDS, "the last round", SECONDS)
    market.network.kill(market.members("val0")[0].name)
    market.network.kill("val0.validator")
    # The daemon had sealed what it closed the last round with: nothing was left to do but to serve.
    assert market.look(order).order.state is OrderState.PROVEN
    market.network.start_one("val0.validator")

    def all_agreed() -> bool:
        on_chain = market.look(order)
        assert not [closed.round for closed in on_chain.rounds if closed.void]
        return len(on_chain.audits) == ROUNDS and all(audit.agreed for audit in on_chain.audits)

    wait_until(all_agreed, "audits that agree", SECONDS)
    for audit in market.look(order).audits:
        assert len(audit.places) == 5
        assert all(answer.root for seat in audit.seats for answer in seat.answers)
    scratch = market.layout.path / "scratch"
    result = fetch_result(market.client, market.key, order.id, market.job, scratch)
    assert result.root == market.look(order).rounds[-1].next_root

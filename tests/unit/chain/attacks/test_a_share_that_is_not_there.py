"""A validator accepts a share that no one committed. With the issue 0, every node used to end in this block."""

import pytest

from domain.errors import NOT_FOUND
from domain.proof.messages import AcceptedShare, MsgAcceptShares
from domain.proof.records import ShareRoots
from tests.support.chain_market import Market


@pytest.mark.parametrize("issue", [0, 1, 2, 2**32 - 1])
def test_a_share_that_no_one_committed_is_refused(issue: int) -> None:
    market = Market()
    order_id = market.run()
    leg = market.leg(order_id)
    made_up = AcceptedShare(0, issue, ShareRoots(bytes(32), bytes(32), bytes(32), (), 2))
    message = MsgAcceptShares(leg.validator, order_id, leg.number, leg.round, (made_up,))
    refused = market.chain.refused(NOT_FOUND, message, field="shares")
    assert f"share 0/{issue} is not committed" in refused.log
    market.train_round(order_id)

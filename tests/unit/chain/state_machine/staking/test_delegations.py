"""Delegating, undelegating, redelegating: shares, pots, entries, and what is refused."""

from collections.abc import Sequence

import pytest
from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData
from cosmpy.protos.cosmos.staking.v1beta1.tx_pb2 import MsgBeginRedelegateResponse, MsgUndelegateResponse

from chain.state_machine.context import HEAD, NS
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.staking.delegations import get_delegation
from chain.state_machine.staking.tables import DELEGATIONS, REDELEGATIONS, UNBONDINGS
from domain.amount import ASSAY
from domain.errors import (
    BAD_FIELD,
    INSUFFICIENT_FUNDS,
    INVALID_COINS,
    LIMIT_REACHED,
    NOT_FOUND,
    WRONG_STATE,
)
from domain.ledger.records import Coin
from domain.messages import Message
from domain.staking.messages import MsgDelegate
from domain.staking.records import ONE
from tests.support.chain_harness import COINS, STAKE, Chain
from tests.support.stakes import (
    UNBONDING,
    cancel,
    create,
    delegate,
    leaving,
    make_chain,
    redelegate,
    slash,
    stake_of,
    undelegate,
    update,
    worth,
)
from wire.results import tx_data


@pytest.fixture
def chain() -> Chain:
    return make_chain()


def pots(chain: Chain) -> tuple[int, int]:
    return POTS.get(chain.overlay(), "stakes"), POTS.get(chain.overlay(), "unbonded")


def test_the_stake_of_the_genesis_is_delegated_by_the_founders(chain: Chain) -> None:
    assert worth(chain, "v0", "v0") == STAKE == stake_of(chain, "v0").tokens
    assert pots(chain) == (2 * STAKE, 0)


def test_delegated_coins_are_power_in_the_same_block(chain: Chain) -> None:
    result = chain.ok(delegate("alice", "v0", 5 * ASSAY))
    assert result.validator_updates == (update("v0", 10_005),)
    assert worth(chain, "alice", "v0") == 5 * ASSAY
    assert chain.worth("alice") == COINS - 5 * ASSAY
    assert pots(chain) == (2 * STAKE + 5 * ASSAY, 0)


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (delegate("alice", "v9", 1), NOT_FOUND, "validator"),
        (delegate("alice", "v0", 0), INVALID_COINS, "amount"),
        (delegate("alice", "v0", COINS + 1), INSUFFICIENT_FUNDS, "amount"),
        (MsgDelegate("alice", "v0", Coin("ufoo", 1)), INVALID_COINS, "amount.denom"),
        (undelegate("alice", "v0", 1), NOT_FOUND, "validator_address"),
        (undelegate("v0", "v0", STAKE + 1), INSUFFICIENT_FUNDS, "amount"),
        (redelegate("v0", "v0", "v0", ASSAY), BAD_FIELD, "validator_dst_address"),
        (redelegate("v0", "v0", "v1", ASSAY - 1), INVALID_COINS, "amount"),
        (redelegate("v0", "v0", "v9", ASSAY), NOT_FOUND, "validator"),
        (cancel("alice", "v0", 1, 1), NOT_FOUND, "creation_height"),
    ],
)
def test_what_is_refused(chain: Chain, message: MsgDelegate, code: object, field: str) -> None:
    chain.refused(code, message, field=field)  # type: ignore[arg-type]


def test_undelegated_coins_leave_at_once_and_are_paid_later(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 9 * ASSAY))
    result = chain.ok(undelegate("alice", "v0", 4 * ASSAY))
    assert result.validator_updates == (update("v0", 10_005),)
    assert pots(chain) == (2 * STAKE + 5 * ASSAY, 4 * ASSAY)
    assert leaving(chain, "alice", "v0") == 4 * ASSAY
    chain.pass_time(UNBONDING - 1)
    assert chain.worth("alice") == COINS - 9 * ASSAY
    chain.block(seconds=1)
    assert chain.worth("alice") == COINS - 5 * ASSAY
    assert pots(chain) == (2 * STAKE + 5 * ASSAY, 0)
    assert UNBONDINGS.scan(chain.overlay()) == []


def test_a_delegation_ends_with_its_last_coin(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 7))
    chain.ok(undelegate("alice", "v0", 7))
    assert DELEGATIONS.get(chain.overlay(), "v0", "alice") is None


def test_entries_of_one_block_are_one(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 9))
    chain.ok(undelegate("alice", "v0", 4), undelegate("alice", "v0", 5))
    (entry,) = UNBONDINGS.scan(chain.overlay(), "alice")
    assert entry.initial == 9


def test_the_number_of_entries_has_a_limit() -> None:
    chain = make_chain(max_entries=2)
    chain.ok(delegate("alice", "v0", 9))
    chain.ok(undelegate("alice", "v0", 1))
    chain.ok(undelegate("alice", "v0", 1))
    chain.refused(LIMIT_REACHED, undelegate("alice", "v0", 1))
    chain.pass_time(UNBONDING)
    chain.ok(undelegate("alice", "v0", 1))


def test_an_entry_is_cancelled_in_part_and_in_whole(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 9 * ASSAY))
    chain.ok(undelegate("alice", "v0", 9 * ASSAY))
    height = chain.height
    chain.refused(INSUFFICIENT_FUNDS, cancel("alice", "v0", 10 * ASSAY, height))
    chain.ok(cancel("alice", "v0", 4 * ASSAY, height))
    assert (worth(chain, "alice", "v0"), leaving(chain, "alice", "v0")) == (4 * ASSAY, 5 * ASSAY)
    result = chain.ok(cancel("alice", "v0", 5 * ASSAY, height))
    assert result.validator_updates == (update("v0", 10_009),)
    assert worth(chain, "alice", "v0") == 9 * ASSAY
    chain.pass_time(UNBONDING)
    assert chain.worth("alice") == COINS - 9 * ASSAY


def test_redelegated_coins_move_at_once_and_stay(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 9 * ASSAY))
    result = chain.ok(redelegate("alice", "v0", "v1", 6 * ASSAY))
    assert result.validator_updates == (update("v0", 10_003), update("v1", 10_006))
    assert worth(chain, "alice", "v1") == 6 * ASSAY
    chain.refused(INSUFFICIENT_FUNDS, undelegate("alice", "v1", 1))
    chain.refused(INSUFFICIENT_FUNDS, redelegate("alice", "v1", "v0", ASSAY))
    chain.ok(delegate("alice", "v1", 2 * ASSAY))
    chain.ok(undelegate("alice", "v1", 2 * ASSAY))
    chain.refused(INSUFFICIENT_FUNDS, undelegate("alice", "v1", 1))
    chain.pass_time(UNBONDING)
    assert get_delegation(chain.overlay(), "alice", "v1").locked == 0
    chain.ok(redelegate("alice", "v1", "v0", 6 * ASSAY))


def test_redelegations_have_a_limit() -> None:
    chain = make_chain(max_entries=1)
    chain.ok(delegate("alice", "v0", 9 * ASSAY))
    chain.ok(redelegate("alice", "v0", "v1", ASSAY))
    chain.refused(LIMIT_REACHED, redelegate("alice", "v0", "v1", ASSAY), field="validator_dst_address")
    chain.pass_time(UNBONDING)
    assert REDELEGATIONS.scan(chain.overlay()) == []
    chain.ok(redelegate("alice", "v0", "v1", ASSAY))


def test_coins_of_a_validator_outside_the_set_leave_with_it(chain: Chain) -> None:
    chain.ok(create("new", 5 * ASSAY))
    chain.ok(delegate("alice", "new", ASSAY))
    assert pots(chain) == (2 * STAKE, 6 * ASSAY)
    chain.ok(undelegate("alice", "new", ASSAY))
    assert chain.worth("alice") == COINS
    chain.ok(delegate("alice", "new", ASSAY))
    chain.ok(redelegate("alice", "new", "v0", ASSAY))
    chain.ok(undelegate("alice", "v0", ASSAY))
    assert REDELEGATIONS.scan(chain.overlay()) == []


def test_shares_cost_what_they_are_worth_after_a_slash(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 10 * ASSAY))
    slash(chain, "v0", (STAKE + 10 * ASSAY) // 2)
    assert worth(chain, "alice", "v0") == 5 * ASSAY
    chain.ok(delegate("bob", "v0", 10 * ASSAY))
    assert worth(chain, "bob", "v0") == 10 * ASSAY
    assert get_delegation(chain.overlay(), "bob", "v0").shares == 20 * ASSAY * ONE


def test_nothing_is_sold_by_a_validator_that_lost_all(chain: Chain) -> None:
    chain.ok(delegate("alice", "v0", 10 * ASSAY))
    slash(chain, "v0", STAKE + 10 * ASSAY)
    chain.refused(WRONG_STATE, delegate("bob", "v0", 10 * ASSAY), field="validator_address")
    chain.refused(INSUFFICIENT_FUNDS, undelegate("alice", "v0", 1))


# --- what messages answer ------------------------------------------------------------------------


def answered(chain: Chain, messages: Sequence[Message]) -> list[int]:
    """Send messages in one transaction, and return the completion times (ns) that it answers."""
    (result,) = chain.ok(chain.tx(*messages)).tx_results
    answers = TxMsgData.FromString(tx_data(messages, result)).msg_responses
    # The two responses have the time in the same field.
    times = [MsgBeginRedelegateResponse.FromString(answer.value).completion_time for answer in answers]
    return [time.seconds * NS + time.nanos for time in times]


def test_messages_answer_with_the_header_time_at_which_coins_are_free(chain: Chain) -> None:
    messages = [delegate("alice", "v0", 5 * ASSAY), undelegate("alice", "v0", ASSAY)]
    nothing, paid = answered(chain, [*messages, redelegate("alice", "v0", "v1", ASSAY)])[:2]
    head = HEAD.must(chain.overlay())
    assert (nothing, paid) == (0, head.time_ns - head.clock_ns % NS + UNBONDING * NS)


def test_undelegations_answer_with_the_coins_that_leave(chain: Chain) -> None:
    messages = [delegate("alice", "v0", 9 * ASSAY), undelegate("alice", "v0", ASSAY)]
    messages += [redelegate("alice", "v0", "v1", ASSAY), undelegate("alice", "v0", 2 * ASSAY)]
    (result,) = chain.ok(chain.tx(*messages)).tx_results
    answers = TxMsgData.FromString(tx_data(messages, result)).msg_responses
    amounts = [MsgUndelegateResponse.FromString(answer.value).amount.amount for answer in answers]
    assert amounts == ["", str(ASSAY), "", str(2 * ASSAY)]


def test_moved_coins_of_an_unbonded_validator_are_free_at_once(chain: Chain) -> None:
    chain.ok(create("new"), delegate("alice", "new", 5 * ASSAY))
    (bound,) = answered(chain, [redelegate("alice", "new", "v0", ASSAY)])
    head = HEAD.must(chain.overlay())
    assert bound == head.time_ns - head.clock_ns % NS
    (bound,) = answered(chain, [redelegate("v0", "v0", "v1", ASSAY)])
    head = HEAD.must(chain.overlay())
    assert bound == head.time_ns - head.clock_ns % NS + UNBONDING * NS

"""Where the fees of a block go, and what validators and delegators withdraw."""

import pytest

from chain.state_machine.distribution.community import check_community_spend, spend_community_pool
from chain.state_machine.distribution.tables import STARTS, WITHDRAW_ADDRESSES, get_rewards, get_totals
from chain.state_machine.ledger.tables import POTS
from domain.amount import ASSAY
from domain.distribution.messages import MsgSetWithdrawAddress
from domain.distribution.moves import REWARDS_POT
from domain.distribution.records import ATTOS
from domain.errors import INSUFFICIENT_FUNDS, INVALID_COINS, NOT_FOUND, UNAUTHORIZED, WRONG_STATE, Refusal
from domain.ledger.moves import COMMUNITY_POT, FEES_POT
from domain.messages import Message
from domain.staking.records import ONE, BondStatus
from tests.support.chain_harness import COINS, STAKE, Chain
from tests.support.rewards import (
    commission,
    community,
    drop_fee,
    dust,
    fund,
    owed_commission,
    pay_fee,
    pay_to,
    reward,
    withdraw,
)
from tests.support.stakes import context, create, delegate, edit, jail, make_chain, redelegate, stake_of, undelegate

FEE = 10_000
PLAIN = {"community_tax": 0, "base_proposer_reward": 0, "bonus_proposer_reward": 0}
"""Parameters with which validators share all fees by power alone."""


@pytest.fixture
def chain() -> Chain:
    return make_chain()


@pytest.fixture
def plain() -> Chain:
    return make_chain(**PLAIN)


def pot(chain: Chain, name: str) -> int:
    return POTS.get(chain.overlay(), name)


def earn(chain: Chain, fee: int = FEE) -> None:
    """Share a fee that no transaction paid."""
    drop_fee(chain, "bob", fee)
    chain.block()


# --- the fees of a block -------------------------------------------------------------------------


def test_the_fees_of_a_block_are_shared_in_it(chain: Chain) -> None:
    """2 % for the community; of the rest 5 % for the proposer; what is left by power. A tenth is commission."""
    pay_fee(chain, "alice", FEE, proposer="v1")
    assert pot(chain, FEES_POT.name) == 0
    assert community(chain) == 200 * ATTOS
    assert pot(chain, REWARDS_POT.name) == 9_800
    each, own = 9_310 * ATTOS // 2, 490 * ATTOS
    assert owed_commission(chain, "v0") == each // 10
    assert reward(chain, "v0", "v0") == each * 9 // 10
    assert owed_commission(chain, "v1") == (each + own) // 10
    assert reward(chain, "v1", "v1") == (each + own) * 9 // 10


def test_one_event_says_how_fees_were_shared(chain: Chain) -> None:
    """Each block with fees has it, so the log of events must not grow by more."""
    chain.block()
    chain.away = {"v0"}
    first = len(chain.events)
    pay_fee(chain, "alice", FEE, proposer="v1")
    (shared,) = [event for event in chain.events[first:] if event.type.startswith("distribution.")]
    assert shared.type == "distribution.shared"


def test_a_validator_that_did_not_vote_gets_nothing_and_no_other_one_gets_more(chain: Chain) -> None:
    chain.block()
    chain.away = {"v0"}
    pay_fee(chain, "alice", FEE, proposer="v1")
    own = 9_800 * 3 // 100 * ATTOS  # the base, and half of the bonus
    lost = 9_800 * 2 // 100 * ATTOS  # the other half
    each = (9_800 * ATTOS - own - lost) // 2
    assert reward(chain, "v0", "v0") == owed_commission(chain, "v0") == 0
    assert owed_commission(chain, "v1") == (each + own) // 10
    assert community(chain) == 200 * ATTOS + each + lost
    chain.away = set()
    pay_fee(chain, "alice", FEE, proposer="v1")
    assert owed_commission(chain, "v0") == 9_310 * ATTOS // 20


def test_rewards_from_before_an_absence_stay(plain: Chain) -> None:
    earn(plain)
    plain.away = {"v0"}
    earn(plain)
    plain.away = set()
    earn(plain)
    assert owed_commission(plain, "v0") == 2 * FEE // 2 * ATTOS // 10
    assert owed_commission(plain, "v1") == 3 * FEE // 2 * ATTOS // 10
    assert community(plain) == FEE // 2 * ATTOS


def test_a_block_without_fees_changes_nothing(chain: Chain) -> None:
    before = get_totals(chain.overlay())
    chain.block()
    assert get_totals(chain.overlay()) == before
    assert not [event for event in chain.events if event.type.startswith("distribution.")]


def test_shares_of_power_follow_the_validator_set(plain: Chain) -> None:
    plain.ok(delegate("alice", "v0", 2 * STAKE))
    before = owed_commission(plain, "v0"), owed_commission(plain, "v1")
    earn(plain)
    assert owed_commission(plain, "v0") - before[0] == FEE * 3 // 4 * ATTOS // 10
    assert owed_commission(plain, "v1") - before[1] == FEE // 4 * ATTOS // 10
    jail(plain, "v0")
    plain.block()
    assert stake_of(plain, "v0").status is BondStatus.UNBONDING
    before = owed_commission(plain, "v0"), owed_commission(plain, "v1")
    earn(plain)
    assert owed_commission(plain, "v0") == before[0]
    assert owed_commission(plain, "v1") - before[1] == FEE * ATTOS // 10
    assert get_totals(plain.overlay()).power == stake_of(plain, "v1").tokens // ASSAY


def test_the_proposers_part_never_exceeds_the_whole() -> None:
    chain = make_chain(community_tax=0, base_proposer_reward=ONE, bonus_proposer_reward=ONE)
    pay_fee(chain, "alice", FEE, proposer="v1")
    assert owed_commission(chain, "v1") == FEE * ATTOS // 10
    assert owed_commission(chain, "v0") == community(chain) == 0


def test_a_stranger_among_the_proposers_gets_nothing(chain: Chain) -> None:
    pay_fee(chain, "alice", FEE, proposer="someone", reveals=False)
    assert owed_commission(chain, "v0") == owed_commission(chain, "v1") == 9_800 * ATTOS // 20


def test_a_new_validator_earns_from_the_block_behind_its_bonding(plain: Chain) -> None:
    plain.ok(create("new"))
    for _ in range(3):
        earn(plain)
    assert get_rewards(plain.overlay(), "new").power == 0
    assert reward(plain, "new", "new") == 0


# --- delegators ----------------------------------------------------------------------------------


def test_delegators_share_by_their_shares_and_pay_commission(plain: Chain) -> None:
    plain.ok(delegate("alice", "v0", 2 * STAKE))
    start = reward(plain, "alice", "v0"), reward(plain, "v0", "v0")
    earn(plain, 40_000)
    assert reward(plain, "alice", "v0") - start[0] == 18_000 * ATTOS
    assert reward(plain, "v0", "v0") - start[1] == 9_000 * ATTOS


def test_a_delegator_earns_from_its_delegation_on(plain: Chain) -> None:
    earn(plain)
    plain.ok(delegate("alice", "v0", STAKE))
    # Its transaction paid a fee in the block.
    paid = plain.fees["alice"]
    assert reward(plain, "alice", "v0") == paid * ATTOS // 2 * 9 // 10 // 2
    assert reward(plain, "v0", "v0") == FEE // 2 * ATTOS * 9 // 10 + reward(plain, "alice", "v0")


def test_a_withdrawal_pays_whole_coins_and_its_rest_goes_to_the_pool(plain: Chain) -> None:
    plain.ok(delegate("alice", "v0", 7 * ASSAY))
    earn(plain, 10**7 + 1)
    expected, rest = divmod(reward(plain, "alice", "v0"), ATTOS)
    assert expected
    assert rest
    before, left = plain.balance("alice"), dust(plain)
    result = plain.ok(withdraw("alice", "v0"))
    fee = plain.fees["alice"]
    assert plain.rewards["alice"] == expected
    assert plain.worth("alice") == COINS - 7 * ASSAY
    assert before + expected > plain.balance("alice") > before + expected - fee
    assert dust(plain) % ATTOS >= (left + rest) % ATTOS
    notes = [event for event in result.tx_results[0].events if event.type == "withdraw_rewards"]
    assert notes[0].get("amount") == f"{expected}uassay"


@pytest.mark.parametrize("change", ["more", "less", "all", "away"])
def test_a_change_of_a_delegation_pays_its_rewards(plain: Chain, change: str) -> None:
    plain.ok(delegate("alice", "v0", STAKE))
    earn(plain)
    expected = reward(plain, "alice", "v0") // ATTOS
    assert expected
    message: Message = {
        "more": delegate("alice", "v0", ASSAY),
        "less": undelegate("alice", "v0", ASSAY),
        "all": undelegate("alice", "v0", STAKE),
        "away": redelegate("alice", "v0", "v1", STAKE),
    }[change]
    plain.ok(message)
    assert plain.rewards["alice"] == expected
    has_start = STARTS.has(plain.overlay(), "v0", "alice")
    assert has_start == (change in ("more", "less"))
    if change == "away":
        assert STARTS.has(plain.overlay(), "v1", "alice")


def test_what_was_earned_before_an_edit_has_the_old_commission(plain: Chain) -> None:
    plain.pass_time(86_400)
    earn(plain)
    plain.ok(edit("v0", commission_rate=ONE * 9 // 100))
    paid = plain.fees["v0"]
    assert owed_commission(plain, "v0") == (FEE // 2 * ATTOS // 10) + paid * ATTOS // 2 * 9 // 100


def test_rewards_and_commission_go_where_their_owner_wants(plain: Chain) -> None:
    plain.ok(pay_to("v0", "alice"))
    earn(plain)
    plain.ok(withdraw("v0", "v0"), commission("v0"))
    assert plain.rewards["alice"] > FEE // 2
    assert "v0" not in plain.rewards
    plain.ok(pay_to("v0", "v0"))
    assert not WITHDRAW_ADDRESSES.has(plain.overlay(), "v0")
    earn(plain)
    plain.ok(commission("v0"))
    assert plain.rewards["v0"]


def test_a_rest_of_commission_stays(plain: Chain) -> None:
    earn(plain, 10_001)
    plain.ok(commission("v0"))
    assert plain.rewards["v0"] == 500
    rest = plain.fees["v0"] * ATTOS // 2 // 10 + ATTOS // 20
    assert owed_commission(plain, "v0") == rest


def test_what_a_validator_without_delegators_leaves_goes_to_the_pool(plain: Chain) -> None:
    earn(plain)
    plain.ok(undelegate("v0", "v0", STAKE))
    assert stake_of(plain, "v0").shares == 0
    record = get_rewards(plain.overlay(), "v0")
    assert (record.outstanding, record.power) == (0, 0)
    # The block that it left in shared the fee by the old powers.
    assert community(plain) == plain.fees["v0"] * ATTOS // 2 * 9 // 10
    assert record.commission == FEE // 2 * ATTOS // 10 + plain.fees["v0"] * ATTOS // 2 // 10
    plain.ok(commission("v0"))


def test_what_rounding_leaves_outstanding_goes_to_the_pool_with_the_last_delegation(plain: Chain) -> None:
    plain.ok(delegate("alice", "v0", 3 * ASSAY + 1), delegate("new", "v0", 7 * ASSAY + 3))
    for fee in (9_973, 7_919, 10_007):
        earn(plain, fee)
        plain.ok(withdraw("alice", "v0"), withdraw("new", "v0"), withdraw("v0", "v0"))
    plain.ok(undelegate("alice", "v0", 3 * ASSAY + 1), undelegate("new", "v0", 7 * ASSAY + 3))
    record = get_rewards(plain.overlay(), "v0")
    assert record.outstanding > reward(plain, "v0", "v0")
    plain.ok(undelegate("v0", "v0", STAKE))
    assert get_rewards(plain.overlay(), "v0").outstanding == 0


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (withdraw("alice", "v0"), NOT_FOUND, "validator_address"),
        (withdraw("alice", "alice"), NOT_FOUND, "validator's stake"),
        (commission("v0"), WRONG_STATE, "validator_address"),
        (commission("alice"), NOT_FOUND, "validator's stake"),
        (pay_to("alice", FEES_POT.address), UNAUTHORIZED, "withdraw_address"),
        (fund("alice", 0), INVALID_COINS, "amount"),
        (fund("alice", COINS + 1), INSUFFICIENT_FUNDS, "amount"),
    ],
)
def test_what_is_refused(chain: Chain, message: Message, code: object, field: str) -> None:
    chain.refused(code, message, field=field)  # type: ignore[arg-type]


def test_the_chain_can_forbid_other_accounts() -> None:
    chain = make_chain(withdraw_addr_enabled=0)
    refused = chain.refused(WRONG_STATE, MsgSetWithdrawAddress("alice", "bob"), field="withdraw_address")
    assert "set withdraw address disabled" in refused.log


# --- the community pool --------------------------------------------------------------------------


def test_anyone_may_give_and_governance_may_spend(plain: Chain) -> None:
    plain.ok(fund("alice", 500))
    assert pot(plain, COMMUNITY_POT.name) == 500
    before = plain.balance("bob")
    plain.change(lambda store: spend_community_pool(context(plain, store), "bob", 400))
    assert plain.balance("bob") == before + 400
    assert pot(plain, COMMUNITY_POT.name) == 100
    with pytest.raises(Refusal, match="insufficient funds"):
        check_community_spend(context(plain, plain.overlay()), "bob", 101)
    with pytest.raises(Refusal, match="module's address"):
        check_community_spend(context(plain, plain.overlay()), FEES_POT.address, 1)


def test_dust_becomes_coins_of_the_pool(plain: Chain) -> None:
    """Thirds of a coin: what the division leaves is kept, to the last atto, until it is a coin."""
    plain.ok(delegate("alice", "v0", STAKE))
    seen = []
    for _ in range(40):
        drop_fee(plain, "bob", 1)
        plain.ok(withdraw("alice", "v0"))
        seen.append(dust(plain))
    assert pot(plain, COMMUNITY_POT.name) > 0
    assert max(seen) < ATTOS

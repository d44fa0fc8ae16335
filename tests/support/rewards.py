"""Messages of distribution for chains in memory, and what the state says about rewards."""

from chain.state_machine.distribution.community import get_community_attos
from chain.state_machine.distribution.rewards import get_reward, get_settled
from chain.state_machine.distribution.tables import get_totals
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.ledger.tables import POTS
from domain.distribution.events import FeesShared, TotalsChanged
from domain.distribution.messages import (
    MsgFundCommunityPool,
    MsgSetWithdrawAddress,
    MsgWithdrawDelegatorReward,
    MsgWithdrawValidatorCommission,
)
from domain.genesis import DENOM
from domain.ledger.messages import MsgSend
from domain.ledger.moves import COMMUNITY_POT, FEE
from domain.ledger.records import Coin
from domain.moves import Transfer
from domain.vocabulary import changes_of
from tests.support.chain_harness import Chain
from tests.support.stakes import context


def withdraw(delegator: str, validator: str) -> MsgWithdrawDelegatorReward:
    return MsgWithdrawDelegatorReward(delegator, validator)


def commission(validator: str) -> MsgWithdrawValidatorCommission:
    return MsgWithdrawValidatorCommission(validator)


def pay_to(delegator: str, to: str) -> MsgSetWithdrawAddress:
    return MsgSetWithdrawAddress(delegator, to)


def fund(depositor: str, amount: int) -> MsgFundCommunityPool:
    return MsgFundCommunityPool((Coin(DENOM, amount),), depositor)


def pay_fee(chain: Chain, payer: str, fee: int, **block: object) -> None:
    """Make a block whose only transaction pays ``fee`` (uassay): a transfer of 1 uassay to its own sender."""
    message = MsgSend(payer, payer, (Coin(DENOM, 1),))
    chain.block(chain.tx(message, fee=fee), **block)  # type: ignore[arg-type]


def drop_fee(chain: Chain, payer: str, fee: int) -> None:
    """Put coins of an account among the fees behind the machine's back; the next block shares them."""
    move = Transfer(move=FEE, source=payer, target="", amount=fee)
    chain.change(lambda store: apply_transfer(context(chain, store), move))


def reward(chain: Chain, delegator: str, validator: str) -> int:
    """Return the attos that a delegation could withdraw now."""
    store = chain.overlay()
    return get_reward(store, get_settled(store, validator), delegator)


def owed_commission(chain: Chain, validator: str) -> int:
    """Return the attos of commission that a validator has."""
    return get_settled(chain.overlay(), validator).commission


def community(chain: Chain) -> int:
    """Return the attos of the community pool."""
    return get_community_attos(chain.overlay())


def from_orders(chain: Chain) -> int:
    """Return the coins of the community pool that orders paid, without those that are a part of fees."""
    return POTS.get(chain.overlay(), COMMUNITY_POT.name) - taxes(chain)


def taxes(chain: Chain) -> int:
    """Return the coins that fees gave to the community pool."""
    shared = sum(change.to_community for change in changes_of(FeesShared, chain.events))
    return shared + sum(change.to_community for change in changes_of(TotalsChanged, chain.events))


def dust(chain: Chain) -> int:
    return get_totals(chain.overlay()).dust

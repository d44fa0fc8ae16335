"""The vocabulary of the ledger component."""

from domain.ledger.events import BondDeposited, BondReleased, BondWithdrawing, PaymentMade
from domain.ledger.messages import MsgDepositBond, MsgSend, MsgWithdrawBond
from domain.ledger.moves import MOVES, POTS
from domain.ledger.params import LOCAL, LedgerParams
from domain.ledger.queries import AccountRequest
from domain.words import Words

WORDS = Words(
    name="ledger",
    messages=(
        MsgSend,
        MsgDepositBond,
        MsgWithdrawBond,
    ),
    events=(
        BondDeposited,
        BondWithdrawing,
        BondReleased,
        PaymentMade,
    ),
    queries=(AccountRequest,),
    pots=POTS,
    moves=MOVES,
    message_packages=("cosmpy.protos.cosmos.bank.v1beta1", "assay.registry.v1"),
    query_packages=("assay.registry.v1",),
    params=LedgerParams,
    local_params=LOCAL,
)

"""A small chain for tests: funded accounts, validators, and signed transfers."""

from hashlib import sha256

from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.messages import MsgSend
from domain.params import local_params
from domain.records import Coin
from wire.keys import Key
from wire.tx import build_tx

CHAIN_ID = "assay-local-test"
GENESIS_TIME_NS = 1_700_000_000 * 10**9
COINS = 10**15
GAS = 100_000
FEE = 1_000


def key(number: int) -> Key:
    """Return the key of account ``number``, the same in every process."""
    return Key(sha256(b"small chain %d" % number).digest())


def cons_key(number: int) -> bytes:
    return sha256(b"validator %d" % number).digest()


def cons_address(number: int) -> bytes:
    return sha256(cons_key(number)).digest()[:20]


def genesis(accounts: int = 4, validators: int = 1, chain_id: str = CHAIN_ID) -> Genesis:
    """Return a genesis whose accounts are numbered from 0; validators are operated by the first."""
    return Genesis(
        chain_id,
        DENOM,
        local_params(),
        tuple(
            GenesisAccount(key(number).address, (Coin(DENOM, COINS),)) for number in range(accounts)
        ),
        tuple(
            GenesisValidator(
                key(number).address, f"validator-{number}", cons_key(number), 5_000_000
            )
            for number in range(validators)
        ),
    )


def transfer(
    sender: int,
    sequence: int,
    recipient: int,
    amount: int = 7,
    *,
    chain_id: str = CHAIN_ID,
    memo: str = "",
) -> bytes:
    """Return a signed transfer between accounts of :func:`genesis`."""
    source = key(sender)
    message = MsgSend(source.address, key(recipient).address, (Coin(DENOM, amount),))
    return build_tx(
        (message,),
        source,
        chain_id=chain_id,
        account_number=sender,
        sequence=sequence,
        fee=(Coin(DENOM, FEE),),
        gas_limit=GAS,
        memo=memo,
    )

"""A small chain for tests: funded accounts, validators, and signed transfers."""

from functools import cache
from hashlib import sha256

from domain.beacon import first_beacon, next_beacon, reveal_message
from domain.codec import encode
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.params import local_params
from wire.keys import Key
from wire.reveal import encode_reveal
from wire.tx import build_tx
from wire.vrf import prove

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


def beacon_key(number: int) -> Key:
    return Key(sha256(b"beacon %d" % number).digest())


def cons_address(number: int) -> bytes:
    return sha256(cons_key(number)).digest()[:20]


def genesis(accounts: int = 4, validators: int = 1, chain_id: str = CHAIN_ID) -> Genesis:
    """Return a genesis whose accounts are numbered from 0; validators are operated by the first."""
    return Genesis(
        chain_id,
        DENOM,
        local_params(),
        tuple(GenesisAccount(key(number).address, (Coin(DENOM, COINS),)) for number in range(accounts)),
        tuple(
            GenesisValidator(
                key(number).address,
                f"validator-{number}",
                cons_key(number),
                beacon_key(number).pub_key,
                5_000_000,
            )
            for number in range(validators)
        ),
    )


@cache
def reveal(height: int, chain: Genesis) -> bytes:
    """Return what block ``height`` begins with, where the first validator proposed it and all before it."""
    return encode_reveal(_proof(height, chain))


@cache
def _beacon(height: int, chain: Genesis) -> bytes:
    if not height:
        return first_beacon(chain.chain_id, sha256(encode(chain)).digest())
    return next_beacon(_beacon(height - 1, chain), _proof(height, chain))


def _proof(height: int, chain: Genesis) -> bytes:
    message = reveal_message(chain.chain_id, height, _beacon(height - 1, chain))
    return prove(beacon_key(0).secret, message)


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

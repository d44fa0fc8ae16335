"""The first state: parameters, accounts with their coins, validators with their stakes."""

from hashlib import sha256

from chain.state_machine import keys
from chain.state_machine.internal import Head
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.pots import is_module
from chain.state_machine.registry.powers import compute_power
from chain.state_machine.store import Overlay
from chain.state_machine.tables import HEAD, PARAMS, VALIDATORS, get_balance
from domain.amount import MONEY_MAX
from domain.block import ValidatorUpdate
from domain.bounds import check
from domain.errors import BAD_FIELD, Refusal
from domain.genesis import Genesis, GenesisValidator
from domain.hashing import hash_fields
from domain.records import Validator
from escrow.moves import Pot


def write_genesis(overlay: Overlay, genesis: Genesis, time_ns: int) -> tuple[ValidatorUpdate, ...]:
    """Write the first state and return the validators of the first block."""
    check(genesis)
    PARAMS.put(overlay, genesis.params)
    # Nobody can have chosen this, and the first auction needs a seed.
    first = hash_fields("assay/genesis", genesis.chain_id)
    HEAD.put(overlay, Head(genesis.chain_id, genesis.denom, 0, time_ns, 0, first))
    overlay.put(keys.next_event(), 1)
    overlay.put(keys.next_account(), 0)
    overlay.put(keys.supply(), 0)
    for pot in Pot:
        overlay.put(keys.component(pot), 0)
    for account in genesis.accounts:
        _check(not is_module(account.address), "accounts", f"{account.address} is a module's")
        for coin in account.coins:
            _check(
                coin.denom == genesis.denom,
                "accounts.coins",
                f"{coin.denom} is not {genesis.denom}",
            )
            _add_coins(overlay, account.address, genesis.denom, coin.amount)
    for validator in genesis.validators:
        _add_validator(overlay, validator)
    powers = [ValidatorUpdate(v.cons_key, compute_power(v)) for v in VALIDATORS.scan(overlay)]
    _check(any(update.power for update in powers), "validators", "have no power: stake more")
    return tuple(update for update in powers if update.power)


def _add_coins(overlay: Overlay, address: str, denom: str, amount: int) -> None:
    balances.ensure_account(overlay, address)
    overlay.put(keys.balance(address, denom), get_balance(overlay, address, denom) + amount)
    _mint(overlay, Pot.ACCOUNTS, amount)


def _add_validator(overlay: Overlay, genesis: GenesisValidator) -> None:
    cons_address = sha256(genesis.cons_key).digest()[:20]
    _check(
        VALIDATORS.get(overlay, genesis.operator) is None, "validators", "an operator comes twice"
    )
    _check(overlay.get(keys.consensus(cons_address)) is None, "validators", "a key comes twice")
    balances.ensure_account(overlay, genesis.operator)
    validator = Validator(
        operator=genesis.operator,
        moniker=genesis.moniker,
        cons_key=genesis.cons_key,
        cons_address=cons_address,
        stake=genesis.stake,
        jailed=False,
        endpoint=genesis.endpoint,
        certificate=genesis.certificate,
        orders_settled=0,
        attempts_failed=0,
        audits_answered=0,
        audits_missed=0,
    )
    VALIDATORS.put(overlay, validator)
    overlay.put(keys.consensus(cons_address), genesis.operator.encode())
    _mint(overlay, Pot.STAKES, genesis.stake)


def _mint(overlay: Overlay, pot: Pot, amount: int) -> None:
    """Count new coins; all together stay an amount of money, so that no balance can exceed it."""
    balances.mint_genesis(overlay, pot, amount)
    supply = overlay.record(int, keys.supply()) or 0
    _check(supply <= MONEY_MAX, "genesis", f"has more than {MONEY_MAX} coins")


def _check(holds: bool, field: str, reason: str) -> None:
    if not holds:
        raise Refusal(BAD_FIELD, field, reason, "mend the genesis file")

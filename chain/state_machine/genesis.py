"""The first state: all counts, accounts with their coins, and validators with their stakes."""

from hashlib import sha256

from chain.state_machine.ledger.balances import ensure_account, is_module, mint_genesis
from chain.state_machine.ledger.tables import BALANCES, NEXT_ACCOUNT, POTS, SUPPLY
from chain.state_machine.registry.members import compute_power
from chain.state_machine.registry.tables import BEACON_KEYS, OPERATORS, VALIDATORS
from chain.state_machine.store import Overlay
from domain.amount import MONEY_MAX
from domain.block import ValidatorUpdate
from domain.errors import BAD_FIELD, Refusal
from domain.genesis import Genesis, GenesisValidator
from domain.registry.records import BeaconKey, Validator
from escrow.moves import Pot

# --- coins ---------------------------------------------------------------------------------------


def write_ledger(overlay: Overlay, genesis: Genesis) -> None:
    """Write all counts and the accounts with their coins; Refusal where the genesis has too many."""
    NEXT_ACCOUNT.set(overlay, 0)
    SUPPLY.set(overlay, 0)
    for pot in Pot:
        POTS.set(overlay, 0, pot)
    for account in genesis.accounts:
        check_genesis(
            not is_module(account.address), "accounts", f"{account.address} is a module's"
        )
        for coin in account.coins:
            known = coin.denom == genesis.denom
            check_genesis(known, "accounts.coins", f"{coin.denom} is not {genesis.denom}")
            _add_coins(overlay, account.address, genesis.denom, coin.amount)


def mint(overlay: Overlay, pot: Pot, amount: int) -> None:
    """Count new coins; all together stay an amount of money, so that no balance can exceed it."""
    mint_genesis(overlay, pot, amount)
    supply = SUPPLY.get(overlay)
    check_genesis(supply <= MONEY_MAX, "genesis", f"has more than {MONEY_MAX} coins")


def _add_coins(overlay: Overlay, address: str, denom: str, amount: int) -> None:
    ensure_account(overlay, address)
    BALANCES.set(overlay, BALANCES.get(overlay, address, denom) + amount, address, denom)
    mint(overlay, Pot.ACCOUNTS, amount)


def check_genesis(holds: bool, field: str, reason: str) -> None:
    """Refuse a genesis for which something does not hold."""
    if not holds:
        raise Refusal(BAD_FIELD, field, reason, "mend the genesis file")


# --- validators ----------------------------------------------------------------------------------


def write_registry(overlay: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write the validators, and return the powers of the first block."""
    for validator in genesis.validators:
        _add_validator(overlay, validator)
    powers = [ValidatorUpdate(v.cons_key, compute_power(v)) for v in VALIDATORS.scan(overlay)]
    with_power = tuple(update for update in powers if update.power)
    check_genesis(with_power != (), "validators", "have no power: stake more")
    return with_power


def _add_validator(overlay: Overlay, genesis: GenesisValidator) -> None:
    cons_address = sha256(genesis.cons_key).digest()[:20]
    check_genesis(
        VALIDATORS.get(overlay, genesis.operator) is None, "validators", "an operator comes twice"
    )
    check_genesis(not OPERATORS.has(overlay, cons_address), "validators", "a key comes twice")
    known = BEACON_KEYS.has(overlay, genesis.beacon_key)
    check_genesis(not known, "validators.beacon_key", "a key comes twice")
    ensure_account(overlay, genesis.operator)
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
        legs_failed=0,
        audits_answered=0,
        audits_missed=0,
        beacon_keys=(BeaconKey(genesis.beacon_key, 1),),
        audit_speed=genesis.audit_speed,
        audit_rate=genesis.audit_rate,
    )
    VALIDATORS.put(overlay, validator)
    BEACON_KEYS.mark(overlay, genesis.beacon_key)
    OPERATORS.set(overlay, genesis.operator.encode(), cons_address)
    mint(overlay, Pot.STAKES, genesis.stake)

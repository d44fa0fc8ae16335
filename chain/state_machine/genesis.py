"""The first state: parameters, accounts with their coins, validators with their stakes."""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

from chain.state_machine import keys
from chain.state_machine.internal import Head
from chain.state_machine.ledger import balances
from chain.state_machine.ledger.pots import is_module
from chain.state_machine.registry.powers import compute_power
from chain.state_machine.store import Overlay
from chain.state_machine.tables import HEAD, PARAMS, VALIDATORS, get_balance
from domain.amount import BPS, MONEY_MAX
from domain.block import ValidatorUpdate
from domain.errors import BAD_FIELD, Refusal
from domain.genesis import Genesis, GenesisValidator
from domain.hashing import hash_fields
from domain.limits import CERTIFICATE_BYTES_MAX, DURATION_MAX, SEGMENTS_MAX, TEXT_MAX
from domain.params import Params
from domain.records import Validator
from escrow.moves import Pot

# Ranges of parameters, both ends included. Every edge is safe, if not sensible.
PARAM_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "clock_step_max": (1, 86_400),
        "lot_wait": (0, DURATION_MAX),
        "accept_base": (0, DURATION_MAX),
        "accept_rate": (1, 2**63 - 1),
        "progress_base": (0, DURATION_MAX),
        "round_window": (1, DURATION_MAX),
        "report_window": (1, DURATION_MAX),
        "max_attempts": (1, 100),
        "auditors": (0, 100),
        "audit_places_max": (1, 256),
        "segments_drawn": (1, SEGMENTS_MAX),
        "reference_speed": (1, 2**63 - 1),
        "job_bond_bps": (0, BPS),
        "decline_fee_bps": (0, BPS),
        "protocol_bps": (0, BPS // 2),
        "audit_bps": (0, BPS // 2),  # with the protocol's take never more than all
        "bond_wait": (0, DURATION_MAX),
        "min_gas_price_millionths": (0, 10**12),
        "matches_per_block": (1, 100_000),
        "deadlines_per_block": (1, 100_000),
    }
)


def check_params(params: Params) -> None:
    """Refuse parameters outside their ranges."""
    for name, (low, high) in PARAM_RANGES.items():
        value = getattr(params, name)
        if type(value) is not int or not low <= value <= high:
            raise Refusal(
                BAD_FIELD, f"params.{name}", f"{value} is not in {low}..{high}", "mend it"
            )


def write_genesis(overlay: Overlay, genesis: Genesis, time_ns: int) -> tuple[ValidatorUpdate, ...]:
    """Write the first state and return the validators of the first block."""
    check_params(genesis.params)
    _check(genesis.chain_id != "", "chain_id", "is empty")
    _check(genesis.denom != "", "denom", "is empty")
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
    _check(0 <= amount <= MONEY_MAX, "accounts.coins", f"{amount} is not an amount")
    balances.ensure_account(overlay, address)
    overlay.put(keys.balance(address, denom), get_balance(overlay, address, denom) + amount)
    _mint(overlay, Pot.ACCOUNTS, amount)


def _add_validator(overlay: Overlay, genesis: GenesisValidator) -> None:
    cons_address = sha256(genesis.cons_key).digest()[:20]
    _check(len(genesis.cons_key) == 32, "validators.cons_key", "has not 32 bytes")
    _check(0 < genesis.stake <= MONEY_MAX, "validators.stake", f"{genesis.stake} is not a stake")
    _check(len(genesis.moniker) <= TEXT_MAX, "validators.moniker", "is too long")
    _check(len(genesis.endpoint) <= TEXT_MAX, "validators.endpoint", "is too long")
    _check(
        len(genesis.certificate) <= CERTIFICATE_BYTES_MAX, "validators.certificate", "is too long"
    )
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

"""Tables of staking: validators' stakes, the validator set, delegations, and stake that leaves."""

from collections.abc import Iterator

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import BytesTable, KeySet, Numbers, Table
from domain.genesis import POWER_REDUCTION
from domain.staking.records import BondStatus, Delegation, Redelegation, Unbonding, UnbondingPool, ValidatorStake

VALIDATOR_STAKES = Table(0x60, "validator's stake", ValidatorStake, lambda r: (r.operator,))
DELEGATIONS = Table(0x61, "delegation", Delegation, lambda r: (r.validator, r.delegator))
# Key: delegator, validator.
DELEGATIONS_OF = KeySet(0x62, "delegation of a delegator")
UNBONDING_POOLS = Table(0x63, "unbonding pool", UnbondingPool, lambda r: (r.validator, r.number))
UNBONDINGS = Table(0x64, "unbonding entry", Unbonding, lambda r: (r.delegator, r.validator, r.height, r.pool))
REDELEGATIONS = Table(0x65, "redelegation", Redelegation, lambda r: (r.source, r.delegator, r.target, r.height))
# Key: source. Value: number of its redelegations.
REDELEGATION_COUNTS = Numbers(0x66, "number of redelegations")
# Key: the complement of the power, so that the most powerful comes first, and the validator's number. Value: operator.
CANDIDATES = BytesTable(0x67, "candidate")
# Key: operator of a bonded validator. Value: the power that the consensus was given for it.
POWERS_GIVEN = Numbers(0x68, "power given to the consensus")
# A mark without key: something changed from which the validator set follows.
SET_CHANGED = KeySet(0x69, "change of the validator set")
NEXT_VALIDATOR = Numbers(0x6A, "number of the next validator")
# Key: consensus address. Value: operator. An address stays here for good, because no key may be used twice.
OPERATORS = BytesTable(0x19, "operator")

UNBONDING_DUE = Due("unbonding", 22, lane=2)
REDELEGATION_DUE = Due("redelegation", 23, lane=2)
UNBONDED_DUE = Due("unbonded", 24, lane=2)

_POWER_MAX = 2**63 - 1


def compute_power(tokens: int) -> int:
    """Return the consensus power of an amount of tokens (uassay)."""
    return tokens // POWER_REDUCTION


def rank_of(stake: ValidatorStake) -> tuple[int, int]:
    """Return the key of a validator in the table of candidates."""
    return _POWER_MAX - compute_power(stake.tokens), stake.number


def get_operator(store: Overlay, cons_address: bytes) -> str:
    """Return the operator of the validator with a consensus address; an empty string if there is none."""
    return (OPERATORS.get(store, cons_address) or b"").decode()


def bonded_operators(store: Overlay) -> Iterator[str]:
    """Yield the operators of the bonded validators, ascending."""
    for (operator,) in POWERS_GIVEN.keys(store):
        yield operator.decode()


def get_powers(store: Overlay) -> list[tuple[bytes, int]]:
    """Return the consensus key of each bonded validator, and the power that the consensus was given for it."""
    return [
        (VALIDATOR_STAKES.must(store, operator).cons_key, POWERS_GIVEN.get(store, operator))
        for operator in bonded_operators(store)
    ]


def count_bonded(store: Overlay) -> int:
    """Return the number of bonded validators."""
    return sum(1 for _ in POWERS_GIVEN.keys(store))


def backing_of(stake: ValidatorStake) -> int:
    """Return the stake (uassay) that backs orders, gives seats and weighs lots: the tokens while it is bonded."""
    return stake.tokens if is_bonded(stake) and not stake.jailed else 0


def is_bonded(stake: ValidatorStake) -> bool:
    """Return whether a validator is in the validator set."""
    return stake.status is BondStatus.BONDED

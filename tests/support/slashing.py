"""Chains in memory whose validators are absent or sign twice, and what the state says about them."""

from chain.state_machine.context import HEAD
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.slashing.tables import MISSED_COUNTS, SIGNING_INFOS
from domain.block import BlockResult, Misbehaviour, MisbehaviourKind
from domain.ledger.moves import BURNT_POT
from domain.slashing.records import SigningInfo
from tests.support.chain_harness import Chain, cons_address, make_genesis
from tests.support.stakes import params

WINDOW = 20
JAIL = 100
STEP = 60


def make_watched(validators: int = 4, **changes: int) -> Chain:
    """Return a chain with a short window, of which a validator may miss half."""
    names = tuple(f"v{number}" for number in range(validators))
    defaults = {"signed_blocks_window": WINDOW, "downtime_jail_duration": JAIL, "clock_step_max": STEP}
    return Chain(make_genesis(("alice", "bob", "new"), names, params(**defaults | changes)))


def info_of(chain: Chain, operator: str) -> SigningInfo:
    return SIGNING_INFOS.must(chain.overlay(), cons_address(operator))


def missed(chain: Chain, operator: str) -> int:
    return MISSED_COUNTS.get(chain.overlay(), cons_address(operator))


def burnt(chain: Chain) -> int:
    return POTS.get(chain.overlay(), BURNT_POT.name)


def make_blocks(chain: Chain, count: int) -> None:
    for _ in range(count):
        chain.block()


def until_jailed(chain: Chain, operator: str) -> None:
    """Make blocks without a validator until it is jailed, and let it come back."""
    chain.away = {operator}
    while not info_of(chain, operator).jailed_until:
        chain.block()
    chain.away = set()


def signed_twice(
    chain: Chain,
    operator: str,
    *,
    height: int | None = None,
    time_ns: int | None = None,
    power: int = 10_000,
    kind: MisbehaviourKind = MisbehaviourKind.DUPLICATE_VOTE,
) -> Misbehaviour:
    """Return a proof that a validator signed two blocks, by default at the last height."""
    return Misbehaviour(
        kind=kind,
        validator=cons_address(operator),
        height=chain.height if height is None else height,
        time_ns=HEAD.must(chain.overlay()).time_ns if time_ns is None else time_ns,
        power=power,
    )


def prove(chain: Chain, *operators: str) -> BlockResult:
    """Make a block with proofs against validators for the last height."""
    return chain.block(misbehaviours=tuple(signed_twice(chain, operator) for operator in operators))

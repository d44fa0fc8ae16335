"""Double signatures that the consensus proved: slash, jail for good, and the evidence that stays in the state."""

from chain.state_machine.context import Context
from chain.state_machine.slashing.clock import clock_at
from chain.state_machine.slashing.jail import jail, slash_fraction
from chain.state_machine.slashing.tables import EVIDENCE, SIGNING_INFOS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from domain.block import Misbehaviour
from domain.node.params import NodeParams
from domain.slashing.events import EvidenceAccepted
from domain.slashing.params import SlashingParams
from domain.slashing.records import FOREVER, Evidence, Fault
from domain.staking.records import BondStatus


def punish_misbehaviours(ctx: Context) -> None:
    """Punish the validators that this block proves to have signed twice."""
    for misbehaviour in ctx.block.misbehaviours:
        _punish(ctx, misbehaviour)


def _punish(ctx: Context, misbehaviour: Misbehaviour) -> None:
    """Tombstone a validator, and slash the stake that it had at that height.

    Do nothing if the address is unknown, the validator is tombstoned, its unbonding is over, or the evidence is too
    old.
    """
    info = SIGNING_INFOS.get(ctx.store, misbehaviour.validator)
    if info is None or info.tombstoned:
        return
    if VALIDATOR_STAKES.must(ctx.store, info.operator).status is BondStatus.UNBONDED:
        return
    params = ctx.block.params.of(SlashingParams)
    clock = clock_at(ctx.store, misbehaviour.height, misbehaviour.time_ns)
    if ctx.clock - clock > params.evidence_max_age:
        return
    evidence = Evidence(
        cons_address=info.cons_address,
        operator=info.operator,
        kind=misbehaviour.kind,
        height=misbehaviour.height,
        time_ns=misbehaviour.time_ns,
        power=misbehaviour.power,
    )
    EVIDENCE.put(ctx.store, evidence)
    ctx.emit(EvidenceAccepted(evidence))
    jail(ctx, info.operator, Fault.DOUBLE_SIGN, FOREVER)
    # Coins that left in the block before that height still gave power at it.
    since = clock - ctx.block.params.of(NodeParams).clock_step_max
    slash_fraction(ctx, info.operator, Fault.DOUBLE_SIGN, misbehaviour.power, params.slash_fraction_double_sign, since)

"""Policies about evidence, which only a vote adds and withdraws, and the beacons to which evidence can be bound."""

from chain.state_machine.attest.tables import (
    ATTEST_POLICIES,
    BEACON_NUMBERS,
    BEACONS,
    LAST_BEACON,
    LIVE_POLICIES,
)
from chain.state_machine.context import NS, Context
from chain.state_machine.gov.changes import check_authority
from chain.state_machine.store import Overlay
from domain.attest.events import AttestPolicyAdded, AttestPolicyWithdrawn, BeaconKept
from domain.attest.messages import MsgAddAttestPolicy, MsgWithdrawAttestPolicy
from domain.attest.params import AttestParams
from domain.attest.records import AttestPolicy, KeptBeacon
from domain.codec import encode
from domain.errors import ALREADY_EXISTS, BAD_FIELD, LIMIT_REACHED, WRONG_STATE, Refusal
from domain.limits import BEACONS_MAX, POLICY_BYTES_MAX


def is_policy_live(store: Overlay, name: str) -> bool:
    """Return whether a policy exists and is not withdrawn."""
    policy = ATTEST_POLICIES.get(store, name)
    return policy is not None and not policy.withdrawn_at


# --- votes ---------------------------------------------------------------------------------------


def check_add_fields(message: MsgAddAttestPolicy) -> None:
    """Check the size of the policy, and that no measurement names a register twice."""
    size = len(encode(message.policy))
    if size > POLICY_BYTES_MAX:
        reason = f"has {size} bytes, but at most {POLICY_BYTES_MAX} are allowed"
        raise Refusal(LIMIT_REACHED, "policy", reason, "make several policies")
    for at, measurement in enumerate(message.policy.measurements):
        names = [register.name for register in measurement.registers]
        if len(set(names)) != len(names):
            field = f"policy.measurements[{at}].registers"
            raise Refusal(BAD_FIELD, field, "names a register twice", "name each register once")


def check_add(ctx: Context, message: MsgAddAttestPolicy) -> None:
    """Refuse a policy that is not of a vote, or whose name was used before."""
    check_authority(message.authority)
    if ATTEST_POLICIES.has(ctx.store, message.name):
        reason = "is the name of a policy, or of a withdrawn one"
        raise Refusal(ALREADY_EXISTS, "name", reason, "use a new name, such as one with a higher number")


def apply_add(ctx: Context, message: MsgAddAttestPolicy, _: None) -> None:
    """Store the policy."""
    policy = AttestPolicy(name=message.name, policy=message.policy, valid_for=message.valid_for, added_at=ctx.clock)
    ATTEST_POLICIES.put(ctx.store, policy)
    LIVE_POLICIES.set(ctx.store, LIVE_POLICIES.get(ctx.store) + 1)
    ctx.emit(
        AttestPolicyAdded(name=policy.name, policy=policy.policy, valid_for=policy.valid_for, added_at=policy.added_at)
    )


def check_withdraw(ctx: Context, message: MsgWithdrawAttestPolicy) -> AttestPolicy:
    """Return the policy; refuse a withdrawal that is not of a vote, or of a policy that is withdrawn already."""
    check_authority(message.authority)
    policy = ATTEST_POLICIES.need(ctx.store, message.name)
    if policy.withdrawn_at:
        raise Refusal(WRONG_STATE, "name", "is withdrawn already", "no further action is needed")
    return policy


def apply_withdraw(ctx: Context, message: MsgWithdrawAttestPolicy, policy: AttestPolicy) -> None:
    """Withdraw the policy. Its credentials are no longer in force, because each look at one reads the policy."""
    # The clock of the first block is 0, and 0 says that a policy is in force.
    withdrawn_at = max(1, ctx.clock)
    ATTEST_POLICIES.update(ctx.store, policy.name, withdrawn_at=withdrawn_at)
    LIVE_POLICIES.set(ctx.store, LIVE_POLICIES.get(ctx.store) - 1)
    ctx.emit(AttestPolicyWithdrawn(policy.name, withdrawn_at))


# --- beacons -------------------------------------------------------------------------------------


def find_beacon(store: Overlay, beacon: bytes) -> KeptBeacon | None:
    """Return a kept beacon, or None if the chain does not keep it, or no longer."""
    number = BEACON_NUMBERS.get(store, beacon)
    return BEACONS.must(store, number) if number else None


def get_last_beacon(store: Overlay) -> KeptBeacon | None:
    """Return the newest kept beacon, or None if there is none."""
    number = LAST_BEACON.get(store)
    return BEACONS.must(store, number) if number else None


def keep_beacon(ctx: Context) -> None:
    """Keep the beacon of this block if a policy is in force and the last one is old enough; drop the oldest one."""
    if not LIVE_POLICIES.get(ctx.store) or not ctx.revealed:
        return
    time = ctx.time_ns // NS
    last = get_last_beacon(ctx.store)
    if last is not None and time - last.time < ctx.block.params.of(AttestParams).attest_beacon_every:
        return
    number = 1 if last is None else last.number + 1
    kept = KeptBeacon(number=number, beacon=ctx.revealed, height=ctx.height, time=time)
    BEACONS.put(ctx.store, kept)
    BEACON_NUMBERS.set(ctx.store, number, kept.beacon)
    LAST_BEACON.set(ctx.store, number)
    dropped = max(0, number - BEACONS_MAX)
    if dropped:
        BEACON_NUMBERS.delete(ctx.store, BEACONS.must(ctx.store, dropped).beacon)
        BEACONS.delete(ctx.store, dropped)
    ctx.emit(BeaconKept(number=number, beacon=kept.beacon, height=kept.height, time=kept.time, dropped=dropped))

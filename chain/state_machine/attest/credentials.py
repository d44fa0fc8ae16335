"""Credentials of devices: who has one, whether it is in force, its end, and its ban.

A credential stays with its last owner until another account gets it. The owner can lose it for good by a ruling on
work of long ago. So another account gets it only some time after its end, and not while a share of the last owner has
a bond.
"""

from collections.abc import Iterable
from dataclasses import replace

from chain.state_machine.attest.policies import is_policy_live
from chain.state_machine.attest.tables import ATTEST_POLICIES, CREDENTIALS, CURRENT, OWNED
from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import BONDED_SHARES
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.store import Overlay
from domain.attest.events import CredentialBanned, CredentialEnded, CredentialGranted
from domain.attest.params import AttestParams
from domain.attest.records import Attestation, Credential
from domain.legs.records import Leg
from domain.market.records import Order
from domain.proof.records import Round
from pol.rules.tiers.table import least_multiple


def is_in_force(store: Overlay, credential: Credential, clock: int) -> bool:
    """Return whether a credential is in force at ``clock``: not over, not banned, and its policy is not withdrawn."""
    return not credential.banned_at and clock < credential.ends_at and is_policy_live(store, credential.policy)


def find_current(store: Overlay, owner: str, clock: int) -> Credential | None:
    """Return the credential of an account that is in force at ``clock``, or None."""
    current = CURRENT.get(store, owner)
    credential = CREDENTIALS.must(store, current) if current is not None else None
    if credential is None or credential.owner != owner or not is_in_force(store, credential, clock):
        return None
    return credential


def find_obstacle(ctx: Context, owner: str, credential_id: bytes) -> tuple[str, str]:
    """Return why an account cannot get a credential now, and what to do; two empty texts if it can."""
    known = CREDENTIALS.get(ctx.store, credential_id)
    if known is not None and known.banned_at:
        return "is lost for good: a panel found a share of its owner wrong", "attest another device"
    if known is not None and known.owner == owner:
        return "", ""
    if known is not None:
        free_at = known.ends_at + ctx.block.params.of(AttestParams).attest_transfer_wait
        if ctx.clock < free_at:
            reason = f"is of another account until {free_at} (chain clock, now {ctx.clock})"
            return reason, "let its owner release it (`assay provider release`), and wait"
        if next(BONDED_SHARES.keys(ctx.store, known.owner), None) is not None:
            reason = "is of another account, and a share of that account can still be found wrong"
            return reason, "wait until the bonds of that account's shares are returned"
    return "", ""


def grant(ctx: Context, attestation: Attestation) -> None:
    """Give the credential of an accepted attestation to its owner; its credential of another device ends."""
    owner, credential_id = attestation.owner, attestation.credential
    policy = ATTEST_POLICIES.must(ctx.store, attestation.policy)
    old = find_current(ctx.store, owner, ctx.clock)
    before = CREDENTIALS.get(ctx.store, credential_id)
    since = ctx.clock
    if old is not None and old.id == credential_id:
        since = old.since
    elif old is not None:
        end(ctx, old)
    last = "" if before is None or before.owner == owner else before.owner
    if last:
        OWNED.delete(ctx.store, last, credential_id)
        if CURRENT.get(ctx.store, last) == credential_id:
            CURRENT.delete(ctx.store, last)
    credential = Credential(
        id=credential_id,
        owner=owner,
        policy=policy.name,
        executor=attestation.executor,
        since=since,
        ends_at=ctx.clock + policy.valid_for,
    )
    CREDENTIALS.put(ctx.store, credential)
    OWNED.mark(ctx.store, owner, credential_id)
    CURRENT.set(ctx.store, credential_id, owner)
    ctx.emit(
        CredentialGranted(
            credential=credential_id,
            owner=owner,
            policy=policy.name,
            executor=attestation.executor,
            since=since,
            ends_at=credential.ends_at,
            before=last,
        )
    )


def end(ctx: Context, credential: Credential) -> None:
    """End a credential now. It stays with its owner, who can still lose it."""
    CREDENTIALS.put(ctx.store, replace(credential, ends_at=ctx.clock))
    ctx.emit(CredentialEnded(credential=credential.id, owner=credential.owner, ends_at=ctx.clock))


# --- hooks of the proof --------------------------------------------------------------------------


def on_refuted(ctx: Context, providers: Iterable[str]) -> None:
    """Ban all credentials of which a provider of a wrong share is the last owner."""
    for provider in providers:
        for _, credential_id in list(OWNED.keys(ctx.store, provider)):
            credential = CREDENTIALS.must(ctx.store, credential_id)
            if not credential.banned_at:
                # The clock of the first block is 0, and 0 says that a credential is not banned.
                banned_at = max(1, ctx.clock)
                CREDENTIALS.put(ctx.store, replace(credential, banned_at=banned_at))
                ctx.emit(CredentialBanned(credential=credential_id, owner=provider, banned_at=banned_at))


def is_attested(ctx: Context, order: Order, leg: Leg, closed: Round) -> bool:
    """Return whether the lower floor of the audit rate applies to a closed round.

    Each of its shares has a provider with a credential that was in force when the share was committed, and still is.
    Each share also has the bond that a panel of the lower chance needs. The order must allow it, which is not checked
    here.
    """
    needed = least_multiple(order, leg, attested=True)
    for key in closed.share_keys:
        share = SHARES.must(ctx.store, *key)
        credential = find_current(ctx.store, share.claim.provider, ctx.clock)
        if credential is None or credential.since > share.committed_at or share.claim.multiple < needed:
            return False
    return True

"""MsgReportProvider: report a share that is provably wrong.

Any node can check the evidence as far as the chain goes: the leaves are in the provider's own signed trace, and what
the validator replayed differs from what they claim. Whether the replay is right is what an objection disputes.
"""

from dataclasses import dataclass

from chain.state_machine.checks import get_assigned
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.proof.rounds import check_open_round
from chain.state_machine.proof.shares import change_share, count_share
from chain.state_machine.proof.tables import REPORTS, SHARES
from chain.state_machine.queue import Due, schedule
from domain.errors import BAD_FIELD, BAD_PROOF, WRONG_STATE, Refusal
from domain.events import ReportOpened, ShareRejected
from domain.messages import MsgReportProvider
from domain.reasons import ShareReason
from domain.records import AssignmentState, Order, Report, ReportState, Share, ShareState
from pol.rules.commitment import check_leaf, update_claim


@dataclass(frozen=True, slots=True)
class Found:
    """What the check found: the order, the share, and the root that it claims for the reported segment."""

    order: Order
    share: Share
    claimed_root: bytes


def check_state(ctx: Context, message: MsgReportProvider) -> Found:
    """The share stands in the open round of the signer's order, and the evidence holds."""
    order, assignment = get_assigned(
        ctx, message.order_id, message.attempt, message.validator, AssignmentState.RUNNING
    )
    check_open_round(order, assignment, message.round)
    share = SHARES.need(ctx.store, *message.key)
    if share.state is not ShareState.COMMITTED:
        reason = f"the share is {share.state.name.lower()}"
        raise Refusal(WRONG_STATE, "ref", reason, "report only shares that stand")
    return Found(order, share, check_evidence(ctx, message, share))


def check_evidence(ctx: Context, message: MsgReportProvider, share: Share) -> bytes:
    """Check the leaves against the share, and return the root that the share claims for the segment (or its update)."""
    claim = share.claim
    if message.segment > claim.segments:
        reason = f"the share has {claim.segments} segments"
        raise Refusal(BAD_FIELD, "segment", reason, f"name 0 to {claim.segments}")
    is_update = message.segment == claim.segments
    wanted = (0, claim.segments) if is_update else (message.segment, message.segment + 1)
    if tuple(leaf.index for leaf in message.leaves) != wanted:
        raise Refusal(BAD_PROOF, "leaves", "are of other boundaries", f"send {wanted}")
    if not all(check_leaf(ctx.block.chain_id, claim, leaf) for leaf in message.leaves):
        raise Refusal(BAD_PROOF, "leaves", "are not in the share's trace", "send its own leaves")
    claimed = (
        update_claim(claim.update_root, claim.local_out)
        if is_update
        else message.leaves[1].boundary_root
    )
    if claimed == message.replayed_root:
        raise Refusal(BAD_PROOF, "replayed_root", "is what the share claims", "nothing is wrong")
    return claimed


def apply(ctx: Context, message: MsgReportProvider, found: Found) -> None:
    """Reject the share at once; its bond stays at stake while the provider may object."""
    order, share = found.order, found.share
    claim = share.claim
    is_update = message.segment == claim.segments
    reason = ShareReason.UPDATE_MISMATCH if is_update else ShareReason.SEGMENT_MISMATCH
    change_share(ctx, claim.key, state=ShareState.REPORTED, reason=int(reason))
    count_share(ctx, claim.provider, reported=1)
    deadline = ctx.clock + order.params.report_window
    report = Report(
        order_id=order.id,
        attempt=claim.attempt,
        round=claim.round,
        slot=claim.slot,
        issue=claim.issue,
        segment=message.segment,
        provider=claim.provider,
        claimed_root=found.claimed_root,
        replayed_root=message.replayed_root,
        reported_at=ctx.clock,
        deadline=deadline,
        bond=share.bond,
        state=ReportState.OPEN,
    )
    REPORTS.put(ctx.store, report)
    schedule(ctx, deadline, Due.REPORT, *report.key)
    is_open = TALLIES.must(ctx.store, order.id).open_reports
    TALLIES.update(ctx.store, order.id, open_reports=is_open + 1)
    ctx.emit(ShareRejected(claim.key, claim.provider, int(reason)))
    ctx.emit(ReportOpened(claim.key, claim.provider, message.segment))


HANDLER = Handler(MsgReportProvider, check_state, apply)

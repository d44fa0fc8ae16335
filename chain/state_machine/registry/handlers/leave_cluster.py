"""MsgLeaveCluster: leave the cluster."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.registry.members import check_free, leave
from chain.state_machine.registry.tables import PROVIDERS
from domain.errors import WRONG_STATE, Refusal
from domain.messages import MsgLeaveCluster
from domain.records import Provider


def check_state(ctx: Context, message: MsgLeaveCluster) -> Provider:
    """The provider is in a cluster and has no share committed; returns its record."""
    provider = PROVIDERS.need(ctx.store, message.provider)
    if not provider.validator:
        raise Refusal(WRONG_STATE, "provider", "is in no cluster", "nothing to do")
    check_free(ctx, message.provider)
    return provider


def apply(ctx: Context, message: MsgLeaveCluster, provider: Provider) -> None:
    """Leave."""
    leave(ctx, provider)


HANDLER = Handler(MsgLeaveCluster, check_state, apply)

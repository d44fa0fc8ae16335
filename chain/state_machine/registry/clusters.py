"""Clusters: how a provider leaves the one that it is in, and when it may not."""

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import BONDED_SHARES
from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS
from domain.errors import WRONG_STATE, Refusal
from domain.events import ProviderLeft
from domain.records import Provider


def check_free(ctx: Context, provider: str) -> None:
    """Refuse while a bond of the provider's is locked for a share."""
    if next(BONDED_SHARES.keys(ctx.store, provider), None) is not None:
        reason = "a share of yours is committed"
        raise Refusal(WRONG_STATE, "provider", reason, "wait until its bond has returned")


def leave(ctx: Context, provider: Provider) -> None:
    """Leave the cluster that the provider is in."""
    CLUSTERS.delete(ctx.store, provider.validator, provider.address)
    PROVIDERS.update(ctx.store, provider.address, validator="", capability=None)
    ctx.emit(ProviderLeft(provider.address, provider.validator))

"""MsgRegisterProvider: join the cluster of a validator, or move to another one."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.registry.members import check_free, leave
from chain.state_machine.registry.tables import CLUSTERS, PROVIDERS, VALIDATORS
from domain.errors import ALREADY_EXISTS, Refusal
from domain.events import ProviderRegistered
from domain.messages import MsgRegisterProvider
from domain.records import Provider


def check_state(ctx: Context, message: MsgRegisterProvider) -> Provider:
    """The validator exists, and the provider has no share committed elsewhere; returns its record."""
    VALIDATORS.need(ctx.store, message.validator)
    provider = PROVIDERS.get(ctx.store, message.provider)
    if provider is None:
        # The key is in the account, because the account has signed this very transaction.
        pub_key = ACCOUNTS.must(ctx.store, message.provider).pub_key
        return Provider(message.provider, "", pub_key, None, 0, 0, 0)
    if provider.validator == message.validator:
        raise Refusal(ALREADY_EXISTS, "validator", "is yours already", "nothing to do")
    check_free(ctx, message.provider)
    return provider


def apply(ctx: Context, message: MsgRegisterProvider, provider: Provider) -> None:
    """Join; a capability that another validator measured does not come along."""
    if provider.validator:
        leave(ctx, provider)
    PROVIDERS.put(ctx.store, replace(provider, validator=message.validator, capability=None))
    CLUSTERS.mark(ctx.store, message.validator, message.provider)
    ctx.emit(ProviderRegistered(message.provider, message.validator))


HANDLER = Handler(MsgRegisterProvider, check_state, apply)

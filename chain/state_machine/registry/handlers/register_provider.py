"""MsgRegisterProvider: join the cluster of a validator, or move to another one."""

from dataclasses import replace

from chain.state_machine import keys
from chain.state_machine.context import Context
from chain.state_machine.tables import ACCOUNTS, PROVIDERS, VALIDATORS, mark
from domain.errors import ALREADY_EXISTS, WRONG_STATE, Refusal
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


def check_free(ctx: Context, provider: str) -> None:
    """Refuse while a bond of the provider's is locked for a share."""
    if next(ctx.store.scan_keys(keys.provider_share(provider)), None) is not None:
        reason = "a share of yours is committed"
        raise Refusal(WRONG_STATE, "provider", reason, "wait until its bond has returned")


def apply(ctx: Context, message: MsgRegisterProvider, provider: Provider) -> None:
    """Join; a capability that another validator measured does not come along."""
    if provider.validator:
        leave(ctx, provider)
    PROVIDERS.put(ctx.store, replace(provider, validator=message.validator, capability=None))
    mark(ctx.store, keys.cluster(message.validator, message.provider))
    ctx.emit(
        "provider.registered",
        ("provider", message.provider),
        ("validator", message.validator),
    )


def leave(ctx: Context, provider: Provider) -> None:
    """Leave the cluster that the provider is in."""
    ctx.store.delete(keys.cluster(provider.validator, provider.address))
    PROVIDERS.put(ctx.store, replace(provider, validator="", capability=None))
    ctx.emit("provider.left", ("provider", provider.address), ("validator", provider.validator))

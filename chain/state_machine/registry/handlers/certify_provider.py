"""MsgCertifyProvider: what the validator measured of a provider in its cluster."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.registry.tables import PROVIDERS
from domain.errors import NOT_YOURS, Refusal
from domain.events import ProviderCertified
from domain.messages import MsgCertifyProvider
from domain.records import Capability, Provider


def check_state(ctx: Context, message: MsgCertifyProvider) -> Provider:
    """The provider is in the signer's cluster; returns its record."""
    provider = PROVIDERS.need(ctx.store, message.provider)
    if provider.validator != message.validator:
        raise Refusal(
            NOT_YOURS, "provider", "is not in your cluster", "only its validator measures it"
        )
    return provider


def apply(ctx: Context, message: MsgCertifyProvider, provider: Provider) -> None:
    """Replace the capability."""
    capability = Capability(
        message.device_class,
        message.speed,
        message.memory,
        message.bandwidth,
        ctx.clock + message.valid_for,
    )
    PROVIDERS.update(ctx.store, provider.address, capability=capability)
    ctx.emit(ProviderCertified(message.provider, message.validator, message.speed))


HANDLER = Handler(MsgCertifyProvider, check_state, apply)

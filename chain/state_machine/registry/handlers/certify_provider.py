"""MsgCertifyProvider: what the validator measured of a provider in its cluster."""

from dataclasses import replace

from chain.state_machine.checks import check_duration, check_range, check_text
from chain.state_machine.context import Context
from chain.state_machine.tables import PROVIDERS
from domain.amount import WORK_MAX
from domain.errors import NOT_YOURS, Refusal
from domain.limits import NAME_MAX
from domain.messages import MsgCertifyProvider
from domain.records import Capability, Provider

SIZE_MAX = 2**63 - 1


def check_stateless(message: MsgCertifyProvider) -> None:
    """Measurements within bounds."""
    check_text("device_class", message.device_class, NAME_MAX)
    check_range("speed", message.speed, 1, WORK_MAX)
    check_range("memory", message.memory, 0, SIZE_MAX)
    check_range("bandwidth", message.bandwidth, 0, SIZE_MAX)
    check_duration("valid_for", message.valid_for)


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
    PROVIDERS.put(ctx.store, replace(provider, capability=capability))
    ctx.emit(
        "provider.certified",
        ("provider", message.provider),
        ("validator", message.validator),
        ("speed", message.speed),
    )

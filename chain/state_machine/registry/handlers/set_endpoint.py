"""MsgSetEndpoint: where a validator's cluster service listens, and its certificate."""

from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import BAD_FIELD, Refusal
from domain.events import EndpointSet
from domain.messages import MsgSetEndpoint
from domain.records import Validator


def check_stateless(message: MsgSetEndpoint) -> None:
    """An endpoint as host:port."""
    host, colon, port = message.endpoint.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Refusal(BAD_FIELD, "endpoint", "is not host:port", "for example 192.0.2.7:7430")


def check_state(ctx: Context, message: MsgSetEndpoint) -> Validator:
    """The signer is a validator."""
    return VALIDATORS.need(ctx.store, message.operator)


def apply(ctx: Context, message: MsgSetEndpoint, validator: Validator) -> None:
    """Publish both."""
    VALIDATORS.update(
        ctx.store,
        validator.operator,
        endpoint=message.endpoint,
        certificate=message.certificate,
    )
    ctx.emit(EndpointSet(message.operator, message.endpoint))


HANDLER = Handler(MsgSetEndpoint, check_state, apply, check_stateless)

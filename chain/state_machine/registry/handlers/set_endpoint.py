"""MsgSetEndpoint: where a validator's cluster service listens, and its certificate."""

from dataclasses import replace

from chain.state_machine.context import Context
from chain.state_machine.tables import VALIDATORS
from domain.errors import BAD_FIELD, Refusal
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
    changed = replace(validator, endpoint=message.endpoint, certificate=message.certificate)
    VALIDATORS.put(ctx.store, changed)
    ctx.emit("validator.endpoint", ("operator", message.operator), ("endpoint", message.endpoint))

"""MsgSetEndpoint: where a validator's cluster service listens, and its certificate."""

from dataclasses import replace

from chain.state_machine.checks import check_text
from chain.state_machine.context import Context
from chain.state_machine.tables import VALIDATORS
from domain.errors import BAD_FIELD, Refusal
from domain.limits import CERTIFICATE_BYTES_MAX, TEXT_MAX
from domain.messages import MsgSetEndpoint
from domain.records import Validator


def check_stateless(message: MsgSetEndpoint) -> None:
    """An endpoint as host:port, and a certificate of bounded size."""
    check_text("endpoint", message.endpoint, TEXT_MAX)
    host, colon, port = message.endpoint.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Refusal(BAD_FIELD, "endpoint", "is not host:port", "for example 192.0.2.7:7430")
    if not 0 < len(message.certificate) <= CERTIFICATE_BYTES_MAX:
        reason = f"has {len(message.certificate)} bytes"
        raise Refusal(BAD_FIELD, "certificate", reason, f"send 1 to {CERTIFICATE_BYTES_MAX} (DER)")


def check_state(ctx: Context, message: MsgSetEndpoint) -> Validator:
    """The signer is a validator."""
    return VALIDATORS.need(ctx.store, message.operator)


def apply(ctx: Context, message: MsgSetEndpoint, validator: Validator) -> None:
    """Publish both."""
    changed = replace(validator, endpoint=message.endpoint, certificate=message.certificate)
    VALIDATORS.put(ctx.store, changed)
    ctx.emit("validator.endpoint", ("operator", message.operator), ("endpoint", message.endpoint))

"""One file for each message of the registry."""

from chain.state_machine.registry.handlers import (
    certify_provider,
    leave_cluster,
    register_provider,
    set_endpoint,
)

HANDLERS = (
    set_endpoint.HANDLER,
    register_provider.HANDLER,
    leave_cluster.HANDLER,
    certify_provider.HANDLER,
)

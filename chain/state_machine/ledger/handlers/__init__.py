"""One file for each message of the ledger."""

from chain.state_machine.ledger.handlers import send, withdraw_bond

HANDLERS = (
    send.HANDLER,
    withdraw_bond.HANDLER,
)

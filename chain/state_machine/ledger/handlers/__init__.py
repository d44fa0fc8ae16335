"""One file for each message of the ledger."""

from chain.state_machine.ledger.handlers import deposit_bond, send, withdraw_bond

HANDLERS = (
    send.HANDLER,
    deposit_bond.HANDLER,
    withdraw_bond.HANDLER,
)

"""Gas of what the ledger does in due work (:mod:`chain.state_machine.gas`)."""

# A bond that returns: its row, the payment with its event, and the bond account.
BOND_GAS = 20_000
# A share or a depositor that is paid: a payment with its event.
PAY_GAS = 20_000

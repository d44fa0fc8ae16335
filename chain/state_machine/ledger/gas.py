"""Gas of the ledger's due work (:mod:`chain.state_machine.gas`)."""

# A bond that is returned: its row, the payment with its event, and the bond account.
BOND_GAS = 20_000
# A payment to the provider of a share or to a depositor, with its event.
PAY_GAS = 20_000

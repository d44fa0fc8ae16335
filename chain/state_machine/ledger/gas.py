"""Gas of the ledger's due work (:mod:`chain.state_machine.gas`)."""

# Return of a bond. It covers the bond's row, the payment with its event, and the bond account.
BOND_GAS = 20_000
# Payment to the provider of a share or to a depositor, with its event.
PAY_GAS = 20_000

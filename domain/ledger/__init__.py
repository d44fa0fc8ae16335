"""The vocabulary of the ledger component."""

"""Words of the ledger component."""

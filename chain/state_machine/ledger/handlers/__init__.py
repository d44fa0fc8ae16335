"""One file for each message of the ledger."""

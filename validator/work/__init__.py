"""The work of a validator's daemon: transactions, replays in the process pool, audits, and encrypted results."""

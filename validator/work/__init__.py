"""What a validator's daemon does: transactions, replays in the process pool, audits, sealing of results."""

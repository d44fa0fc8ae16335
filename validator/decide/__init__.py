"""What a validator's daemon decides: pure functions of its records, what it sees, and the chain's clock."""

"""The index: an SQLite file of all events of the chain, including those on records that left the chain's state."""

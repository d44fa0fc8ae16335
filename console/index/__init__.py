"""The index: an SQLite file of all events of the chain, also of records that are no longer in its state."""

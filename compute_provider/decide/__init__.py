"""A provider's decisions, as pure functions of values: they use no clock, thread, socket or disk."""

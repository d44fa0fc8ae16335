"""What a provider decides, as plain functions of values: no clock, thread, socket or disk."""

"""The rules of a proof that the chain knows: commitments, lots, schedules."""

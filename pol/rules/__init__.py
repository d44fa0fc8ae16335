"""The rules of proof of learning that the chain applies: commitments, lots, schedules, panels and tiers."""

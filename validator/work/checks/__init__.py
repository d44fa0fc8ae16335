"""The recomputation of places, by tier: the counterpart of ``pol/rules/tiers`` on a validator's machine."""

"""A compute provider: joins a validator's cluster, trains shares, proves them. Dials out only."""

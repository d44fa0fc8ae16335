"""Distribution: fees that become rewards of validators and delegators, and the community pool."""

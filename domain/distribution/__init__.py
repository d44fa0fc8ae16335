"""Words of distribution: the rewards of validators and delegators, and the community pool."""

"""A compute provider: it joins a validator's cluster, trains shares and proves them. It accepts no connections."""

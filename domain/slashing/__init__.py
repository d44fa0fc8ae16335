"""Words of slashing: validators that sign twice or are absent, the jail, and the evidence."""

"""The cluster service of a validator's daemon: its answers to providers, consumers and auditors."""

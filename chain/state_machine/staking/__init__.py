"""Staking: the coins behind validators, the validator set, and stake that leaves."""

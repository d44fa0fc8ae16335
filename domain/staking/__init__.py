"""Words of staking: validators' tokens and shares, delegations, and stake that leaves."""

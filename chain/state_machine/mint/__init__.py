"""Mint: new coins by inflation, which validators and delegators share like fees."""

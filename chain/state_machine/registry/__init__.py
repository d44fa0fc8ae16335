"""Validators and compute providers."""

"""The registry: validators and compute providers."""

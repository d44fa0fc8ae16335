"""Rewrites of operations of torch as other operations of torch."""

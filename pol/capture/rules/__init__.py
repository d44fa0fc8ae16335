"""Handlers that translate operations of torch to primitives."""

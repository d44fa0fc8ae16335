"""Preparation of a model for a job: its weights and its tensors."""

"""Idioms of models and losses that are rewritten for a step, or refused."""

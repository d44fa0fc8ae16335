"""Turning a model into a job; the only package that needs torch."""

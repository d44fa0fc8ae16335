"""Capture of a model as a job; the only package that needs torch."""

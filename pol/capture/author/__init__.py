"""Specification of a job, as a person writes it, its loss and metrics, and ready-made jobs."""

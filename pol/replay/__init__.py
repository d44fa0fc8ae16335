"""Replaying what somebody says was trained, and the file of a local run's trace."""

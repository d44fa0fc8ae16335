"""What developers run in a checkout."""

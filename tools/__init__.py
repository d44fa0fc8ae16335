"""Tools that developers run in a checkout."""

"""Words of the registry component."""

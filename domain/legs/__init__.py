"""Words of the legs component."""

"""Words of the market component."""

"""Words of the node component."""

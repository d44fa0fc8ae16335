"""The vocabulary of the node component."""

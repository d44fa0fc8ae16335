"""The vocabulary of the attest component."""

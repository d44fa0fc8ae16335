"""Training a share and replaying any place of it."""

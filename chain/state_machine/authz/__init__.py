"""Authorizations: accounts that let others send messages for them."""

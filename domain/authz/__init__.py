"""Words of authorizations: accounts that let others send messages for them."""

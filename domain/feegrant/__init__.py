"""Words of fee grants: accounts that let others pay fees with their coins."""

"""What a validator's daemon answers on the link: to providers, consumers and auditors."""

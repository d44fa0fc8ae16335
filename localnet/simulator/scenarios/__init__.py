"""Scenarios that anyone can play: a party behaves badly in one way, and the chain's records show who was at fault."""

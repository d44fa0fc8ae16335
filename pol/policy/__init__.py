"""The policy of a market: gains of strategies in expectation, and the bonds and chances at which honest work pays.

Only clients use this package. It computes with floats, so the chain must not import it.
"""

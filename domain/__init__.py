"""The vocabulary of the chain: plain records, integers only."""

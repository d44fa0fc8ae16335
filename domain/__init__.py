"""The vocabulary of the chain as plain records, in which all numbers are integers."""

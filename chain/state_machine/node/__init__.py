"""The head of the chain, its parameters, the queue and the number of the next event, which all components share."""

"""The node process: ABCI, storage, queries, and the supervisor of CometBFT."""

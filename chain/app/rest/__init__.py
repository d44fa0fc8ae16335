"""The REST gateway: a process that answers HTTP with JSON from the node's gRPC services."""

"""The replicated state machine: blocks in, state and events out."""

"""The replicated state machine, which turns blocks into changes of the state and events."""

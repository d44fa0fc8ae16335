"""Training a share, replaying a segment, and aggregating the updates of a round into the next state."""

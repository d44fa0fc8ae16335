"""One file for each message of the proof."""

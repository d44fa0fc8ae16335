"""Words of the proof component."""

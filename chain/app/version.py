"""What this software calls itself."""

SOFTWARE = "assay"
SOFTWARE_VERSION = "0.1.0"
APP_VERSION = 1
"""Version of the state machine: it changes whenever the same block could give another state."""

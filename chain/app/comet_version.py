"""The release of CometBFT that a node runs with; standard library only, because the set-up reads it."""

VERSION = "0.38.25"

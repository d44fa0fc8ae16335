"""An executor on an owner's machines: a client in the daemon, a driver process, and one worker per node."""

"""Actors of the simulator: the real decisions of each kind of party, and a shell without sockets, disks or tensors."""

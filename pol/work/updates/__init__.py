"""Updates: what a slot makes at a round's end, and how the updates of all slots become the inputs of ``outer``."""

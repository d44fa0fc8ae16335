"""The disputes component: anyone can have a place of a closed round recomputed, at the risk of a bond."""

"""The executor of programs in exact arithmetic, with two back ends that give the same bits."""

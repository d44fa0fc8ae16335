"""The executor of programs in exact arithmetic; all of its back ends give the same bits."""

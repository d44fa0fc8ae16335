"""Ways to write a model or a loss that a step needs in other words."""

"""Idioms of models and losses that a step needs in another form, or refuses."""

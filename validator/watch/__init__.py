"""Recomputing places of other validators' closed rounds, to challenge those that are wrong."""

"""Proof of learning: jobs, exact arithmetic, states, traces, replay, and the rules that the chain shares."""

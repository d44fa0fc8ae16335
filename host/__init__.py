"""Basics of every process: durable files, children that die with their parent, signals, logs."""

"""Dividing one run of a program among an owner's machines, with the same bits: plans, their costs, and virtual
machines that run them.
"""

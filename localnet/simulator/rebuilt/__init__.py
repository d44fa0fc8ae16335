"""A second set of books, kept from the genesis and the events of a chain alone (protocol 1.4).

What follows from other fields by a rule of the protocol (the work of a share, whose failure counts) is worked out here;
everything else stands in an event. :mod:`~localnet.simulator.rebuilt.compare` compares with what the state machine has.
"""

"""The operations of torch in primitives."""

"""The primitive operations of programs, grouped by family, each with its shape rule, its work and its reference."""

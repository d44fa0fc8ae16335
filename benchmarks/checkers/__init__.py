"""The checkers that ``python -m benchmarks matrix`` compares: the product's own, and baselines from papers."""

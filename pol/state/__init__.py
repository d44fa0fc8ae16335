"""States of a job: their canonical bytes, their Merkle trees, and a strict reader of safetensors files."""

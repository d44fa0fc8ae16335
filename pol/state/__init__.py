"""States of a job: canonical bytes, their Merkle tree, and strict safetensors files."""

"""Values that are known while a job is built."""

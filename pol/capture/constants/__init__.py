"""Values that are known when the job is built."""

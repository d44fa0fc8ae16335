"""The job as data: the table of primitives, programs, the job document, loading and its limits."""

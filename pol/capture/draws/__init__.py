"""Random numbers of a step, drawn from the job's seed."""

"""A person's model as a job has it."""

"""What a person writes: the specification of a job, its measures, and ready-made jobs."""

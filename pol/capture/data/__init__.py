"""A person's data as the columns of a job."""

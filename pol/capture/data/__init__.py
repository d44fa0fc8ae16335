"""Conversion of a person's data into the columns of a job."""

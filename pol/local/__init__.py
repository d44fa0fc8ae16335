"""What a person does with a job at home."""

"""The one place that turns wire messages into domain values and back."""

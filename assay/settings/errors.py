"""The error of a home's settings."""

from domain.errors import Expected


class SettingsError(Expected):
    """A home, a setting or a signing key cannot be used."""

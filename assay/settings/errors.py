"""The error of a home's settings."""

from domain.errors import Expected


class SettingsError(Expected):
    """The error of a home, a setting or a signing key that cannot be used."""

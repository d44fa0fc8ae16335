"""The one error that reading or building a job can end in."""

from domain.errors import Expected


def printable(text: str) -> str:
    """Return ``text`` with escapes for what a terminal or a log should not get from a stranger."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


class JobError(Expected):
    """A job is refused: the field that is wrong, why, and what to do about it (one sentence each).

    Args:
        field: path in the job document, such as ``step.nodes[17].attrs.dims``, or a file name.
        reason: what is wrong with it.
        remedy: what the person who wrote the job can do.
    """

    def __init__(self, field: str, reason: str, remedy: str) -> None:
        super().__init__(printable(reason), remedy, field=printable(field))

    def __str__(self) -> str:
        return f"{self.field}: {self.reason} {self.remedy}"

    def under(self, prefix: str) -> "JobError":
        """Return the same error with ``prefix`` put before the field (``a.b`` or ``a[3]``)."""
        if not self.field:
            return JobError(prefix, self.reason, self.remedy)
        joint = "" if self.field.startswith("[") else "."
        return JobError(f"{prefix}{joint}{self.field}", self.reason, self.remedy)

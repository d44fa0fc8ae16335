"""Command ``python -m pol.capture FILE.py DIR``: build a job without the rest of Assay, as test fixtures do."""

import sys
from pathlib import Path

from pol.capture.build import build_job
from pol.errors import JobError


def main(arguments: list[str]) -> int:
    """Build the job of a file into a folder and print its id."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m pol.capture FILE.py DIR\n")
        return 2
    try:
        job = build_job(Path(arguments[0]), Path(arguments[1]), print_line)
    except JobError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print_line(job.id.hex())
    return 0


def print_line(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

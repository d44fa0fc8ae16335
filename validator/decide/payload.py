"""The files of a job, as their consumer offers them."""

from collections.abc import Sequence
from pathlib import PurePosixPath

GLOBAL_FILE, LOCAL_FILE, JOB_FILE = "global.state", "local.state", "job.json"


def nests(paths: Sequence[str]) -> bool:
    """Tell whether a path is a folder of another one, so that they cannot lie in one directory."""
    folders = {parent.as_posix() for path in paths for parent in PurePosixPath(path).parents}
    return not folders.isdisjoint(paths)

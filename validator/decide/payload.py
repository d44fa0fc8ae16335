"""The files of a job, as their consumer offers them."""

from collections.abc import Sequence

GLOBAL_FILE, LOCAL_FILE, JOB_FILE = "global.state", "local.state", "job.json"


def nests(paths: Sequence[str]) -> bool:
    """Tell whether a path is a folder of another one, so that they cannot lie in one directory."""
    parts = [path.split("/") for path in paths]
    folders = {"/".join(names[:depth]) for names in parts for depth in range(1, len(names))}
    return not folders.isdisjoint(paths)

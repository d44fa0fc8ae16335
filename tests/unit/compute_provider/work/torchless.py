"""A worker on a machine without torch: ``python -m … PARENT FOLDER MEMORY DEVICE READ…``."""

import sys

from compute_provider.work import worker


class Missing:
    """A finder of modules that does not find torch."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Refuse torch, and leave other modules to other finders."""
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name="torch")


if __name__ == "__main__":
    sys.meta_path.insert(0, Missing())
    worker.main(sys.argv[1:])

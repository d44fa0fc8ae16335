"""Generation of modules and stubs in `assay/<part>/v1/` from `proto/assay/<part>/v1/*.proto`."""

import shutil
import tempfile
from pathlib import Path

from tools.setup.steps import BIN, ROOT, run

PROTO = ROOT / "proto"
SUFFIXES = ("_pb2.py", "_pb2.pyi")


def sources() -> list[Path]:
    """Return the project's proto files in a fixed order."""
    return sorted(PROTO.glob("assay/*/v1/*.proto"))


def parts() -> list[Path]:
    """Return the folders, relative to the checkout, that hold only generated modules."""
    return sorted({source.relative_to(PROTO).parent.parent for source in sources()})


def are_there() -> bool:
    """Return whether each proto file has its generated modules."""
    stems = (source.relative_to(PROTO).with_suffix("") for source in sources())
    return all((ROOT / f"{stem}{suffix}").is_file() for stem in stems for suffix in SUFFIXES)


def generate() -> None:
    """Generate all modules in a temporary folder, then move them into place."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".venv") as scratch:
        out = Path(scratch)
        run(
            [
                BIN / "python",
                "-m",
                "grpc_tools.protoc",
                f"--proto_path={PROTO}",
                f"--plugin=protoc-gen-mypy={BIN / 'protoc-gen-mypy'}",
                *(f"--{kind}_out={out}" for kind in ("python", "mypy")),
                *sources(),
            ],
            "generating the protobuf modules",
        )
        for part in parts():
            finish(out / part)
            shutil.rmtree(ROOT / part, ignore_errors=True)
            (out / part).rename(ROOT / part)


def finish(part: Path) -> None:
    """Make the folder ``part`` of generated modules a package, and let git ignore it."""
    (part / ".gitignore").write_text("*\n")
    for package in (part, part / "v1"):
        (package / "__init__.py").write_text('"""Generated from proto/; never edited."""\n')

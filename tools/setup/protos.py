"""Turns `proto/assay/<part>/v1/*.proto` into modules and stubs in `assay/<part>/v1/`."""

import shutil
import tempfile
from pathlib import Path

from tools.setup.steps import BIN, ROOT, run

PROTO = ROOT / "proto"
SUFFIXES = ("_pb2.py", "_pb2.pyi")


def sources() -> list[Path]:
    """Every proto file of ours, in a fixed order."""
    return sorted(PROTO.glob("assay/*/v1/*.proto"))


def parts() -> list[Path]:
    """The folders, relative to the checkout, that hold generated modules only."""
    return sorted({source.relative_to(PROTO).parent.parent for source in sources()})


def are_there() -> bool:
    """Whether each proto file has its modules."""
    stems = (source.relative_to(PROTO).with_suffix("") for source in sources())
    return all((ROOT / f"{stem}{suffix}").is_file() for stem in stems for suffix in SUFFIXES)


def generate() -> None:
    """Generate all modules beside the checkout's tree, then put them in place."""
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
    """Make a generated folder a package that git does not see."""
    (part / ".gitignore").write_text("*\n")
    for package in (part, part / "v1"):
        (package / "__init__.py").write_text('"""Generated from proto/; never edited."""\n')

"""The site: every page is in its contents, every link leads somewhere, and nothing of it comes from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tools.references.source import ROOT

LOADED = re.compile(r'<(?:script|link|img|iframe|source|video)\b[^>]*\b(?:src|href)="?https?://[^" >]+')


def test_the_site_is_whole_and_needs_nobody_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path),
        ],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        assert not LOADED.findall(page.read_text()), page
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", style.read_text()), style
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 100_000

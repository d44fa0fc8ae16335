"""`python -m tools.setup`. Any Python 3 can parse this file, so that it can refuse an old version."""

import sys

if not (3, 11) <= sys.version_info[:2] < (3, 13):
    sys.exit(
        "assay setup: this is Python %d.%d, and Assay needs 3.11 or 3.12: install one of them "
        "and run `make setup PYTHON=python3.12`." % sys.version_info[:2]
    )

from tools.setup.environment import main

main()

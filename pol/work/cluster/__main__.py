"""The program of the driver process; see :mod:`pol.work.cluster.driver`."""

import sys

from pol.work.cluster.driver import main

main(int(sys.argv[1]))

"""`python -m pu_geo.cli` is `pu-geo`."""

import sys

from pu_geo.cli import main

sys.exit(main())

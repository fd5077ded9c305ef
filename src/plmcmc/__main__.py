"""`python -m plmcmc`, which is also how torchrun starts it."""

import sys

from plmcmc.cli import main

if __name__ == "__main__":
    sys.exit(main())

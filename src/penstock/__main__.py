"""`python -m penstock`, the same as the command `penstock`."""

from penstock.cli import main

main()

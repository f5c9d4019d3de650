"""`python -m flashbench` is `flashbench`."""

from flashbench.cli import main

main()

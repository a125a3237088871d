"""`python -m streams` is `lookup-stage`."""

from streams.cli import main

main()

"""``python -m evolvent.cli``."""

from evolvent.cli import main

main()

"""``python -m evolvent``."""

from evolvent.cli import main

main()

"""The `servetune` command. Importing this package loads nothing: `--help` must answer at once."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script; exits with DESIGN.md §8's codes."""
    import sys

    from tuner.cli.entry import run

    sys.exit(run(sys.argv[1:]))

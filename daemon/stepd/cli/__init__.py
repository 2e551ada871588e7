"""Owns the command line: one module a command, put together in `app`."""

from stepd.cli.app import main

__all__ = ["main"]

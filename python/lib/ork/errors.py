"""Errors by which a function says what Ork does next."""

from typing import Optional


class Terminal(Exception):
    """Fails the task at once, whatever retries it has left: a retry cannot help."""


class RetryAfter(Exception):
    """Delays the next retry, if one is left, by at least this number of seconds."""

    seconds: float

    def __init__(self, seconds: float, message: Optional[str] = None) -> None:
        seconds = float(seconds)
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"RetryAfter takes seconds from 0, not {seconds}")
        super().__init__(message or f"asks for a retry after {seconds:g} s")
        self.seconds = seconds


class Cancelled(Exception):
    """Raised by `ctx.check()` when the task was cancelled or timed out."""

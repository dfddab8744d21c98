"""Functions of tasks, tests of them, and a client of Ork's server.

Ork provides this module to the functions of `executor: python` tasks: they need not install it.
"""

from typing import TYPE_CHECKING, Any

from .context import Context, Log
from .errors import Cancelled, RetryAfter, Terminal
from .script import Task, task

if TYPE_CHECKING:
    from .client import ApiError, Client

__all__ = ["ApiError", "Cancelled", "Client", "Context", "Log", "RetryAfter", "Task", "Terminal", "task"]


def __getattr__(name: str) -> Any:
    """Loads the client on first use, because workers start faster without it."""
    if name in ("ApiError", "Client"):
        from . import client

        return getattr(client, name)
    raise AttributeError(f"module 'ork' has no attribute {name!r}")

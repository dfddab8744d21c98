"""What a function of an `executor: python` task may import. Given by Ork itself: there is nothing to install."""

import threading

__all__ = ["Cancelled", "Context", "RetryAfter", "Terminal"]


class Terminal(Exception):
    """Trying again cannot help: the task fails at once, whatever retries it has left."""


class RetryAfter(Exception):
    """Try again, if a retry is left, but not before so many seconds."""

    def __init__(self, seconds, message=None):
        seconds = float(seconds)
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"RetryAfter takes seconds from 0, not {seconds}")
        super().__init__(message or f"asks to be tried again after {seconds:g} s")
        self.seconds = seconds


class Cancelled(Exception):
    """Raised by `ctx.check()` once the task was cancelled or has run out of time."""


class Log:
    """Lines in the attempt's log; those of `warning` and `error` on stderr. Takes arguments as `logging` does."""

    def __init__(self, out, err):
        self._out = out
        self._err = err

    def __call__(self, message, *args):
        self.info(message, *args)

    def debug(self, message, *args):
        self._say(self._out, "debug: ", message, args)

    def info(self, message, *args):
        self._say(self._out, "", message, args)

    def warning(self, message, *args):
        self._say(self._err, "warning: ", message, args)

    warn = warning

    def error(self, message, *args):
        self._say(self._err, "error: ", message, args)

    @staticmethod
    def _say(stream, level, message, args):
        stream().write(f"{level}{str(message) % args if args else message}\n")


class Context:
    """What a function sees of its task: `def main(input, ctx)`."""

    def __init__(self, facts, log, send, listen):
        self.run_id = facts["runId"]
        self.task_id = facts["taskId"]
        self.task_name = facts["taskName"]
        self.workflow_name = facts["workflowName"]
        self.attempt = facts["attempt"]
        self.parallel_index = facts["parallelIndex"]
        self.parallel_count = facts["parallelCount"]
        self.logical_date = facts["logicalDate"]
        self.log = log
        self._send = send
        self._listen = listen
        self._cancelled = None

    @property
    def cancelled(self):
        """A threading.Event, set when the task is cancelled or has run out of time. Who never asks for it is ended at once then."""
        if self._cancelled is None:
            self._cancelled = threading.Event()
            self._listen(self._cancelled.set)
        return self._cancelled

    def check(self):
        """Raises Cancelled once the task is to stop."""
        if self.cancelled.is_set():
            raise Cancelled("the task was stopped")

    def heartbeat(self, details=None):
        """Says that the function is alive and, if it likes, with what it is busy."""
        self._send({} if details is None else {"details": details})

    def progress(self, fraction, details=None):
        """How far it is, 0 to 1."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress takes a number from 0 to 1, not {fraction}")
        self._send({"fraction": fraction, **({} if details is None else {"details": details})})

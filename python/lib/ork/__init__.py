"""The module that functions of `executor: python` tasks may import. Ork provides it: there is nothing to install."""

import threading

__all__ = ["Cancelled", "Context", "RetryAfter", "Terminal"]


class Terminal(Exception):
    """Fails the task at once, whatever retries it has left: a retry cannot help."""


class RetryAfter(Exception):
    """Delays the next retry, if one is left, by at least this number of seconds."""

    def __init__(self, seconds, message=None):
        seconds = float(seconds)
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"RetryAfter takes seconds from 0, not {seconds}")
        super().__init__(message or f"asks for a retry after {seconds:g} s")
        self.seconds = seconds


class Cancelled(Exception):
    """Raised by `ctx.check()` when the task was cancelled or timed out."""


class Log:
    """Writes lines to the attempt's log, `warning` and `error` on stderr. Arguments are formatted as by `logging`."""

    def __init__(self, out, err):
        self._out = out
        self._err = err

    def __call__(self, message, *args):
        self.info(message, *args)

    def debug(self, message, *args):
        self._write(self._out, "debug: ", message, args)

    def info(self, message, *args):
        self._write(self._out, "", message, args)

    def warning(self, message, *args):
        self._write(self._err, "warning: ", message, args)

    warn = warning

    def error(self, message, *args):
        self._write(self._err, "error: ", message, args)

    @staticmethod
    def _write(stream, level, message, args):
        stream().write(f"{level}{str(message) % args if args else message}\n")


class Context:
    """The context of a task, the second argument of its function: `def main(input, ctx)`."""

    def __init__(self, task, log, send, on_terminate):
        self.run_id = task["runId"]
        self.task_id = task["taskId"]
        self.task_name = task["taskName"]
        self.workflow_name = task["workflowName"]
        self.attempt = task["attempt"]
        self.parallel_index = task["parallelIndex"]
        self.parallel_count = task["parallelCount"]
        self.logical_date = task["logicalDate"]
        self.log = log
        self._send = send
        self._on_terminate = on_terminate
        self._cancelled = None

    @property
    def cancelled(self):
        """A threading.Event that is set when the task is cancelled or times out. A function that never uses it is killed at once then."""
        if self._cancelled is None:
            self._cancelled = threading.Event()
            self._on_terminate(self._cancelled.set)
        return self._cancelled

    def check(self):
        """Raises Cancelled when the task was cancelled or timed out."""
        if self.cancelled.is_set():
            raise Cancelled("the task was stopped")

    def heartbeat(self, details=None):
        """Reports that the function is alive, with optional details."""
        self._send({} if details is None else {"details": details})

    def progress(self, fraction, details=None):
        """Reports progress as a number from 0 to 1, with optional details."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress takes a number from 0 to 1, not {fraction}")
        self._send({"fraction": fraction, **({} if details is None else {"details": details})})

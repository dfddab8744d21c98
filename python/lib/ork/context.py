"""The context of a task, the second argument of its function: `def main(input, ctx: ork.Context)`."""

import _thread
import threading
from typing import Any, Callable, Dict, Mapping, Optional, TextIO

from .errors import Cancelled


class Log:
    """Writes lines to the attempt's log, `warning` and `error` on stderr. Arguments are formatted as by `logging`."""

    def __init__(self, out: Callable[[], TextIO], err: Callable[[], TextIO]) -> None:
        self._out = out
        self._err = err

    def __call__(self, message: object, *args: object) -> None:
        self.info(message, *args)

    def debug(self, message: object, *args: object) -> None:
        self._write(self._out, "debug: ", message, args)

    def info(self, message: object, *args: object) -> None:
        self._write(self._out, "", message, args)

    def warning(self, message: object, *args: object) -> None:
        self._write(self._err, "warning: ", message, args)

    warn = warning

    def error(self, message: object, *args: object) -> None:
        self._write(self._err, "error: ", message, args)

    @staticmethod
    def _write(stream: Callable[[], TextIO], level: str, message: object, args: Any) -> None:
        stream().write(f"{level}{str(message) % args if args else message}\n")


class Context:
    """What a function knows about its task. Ork creates it; in tests, `ork.testing.context` does."""

    run_id: str
    task_id: str
    task_name: str
    workflow_name: str
    #: Counts from 1.
    attempt: int
    #: None for a task without a fan-out.
    parallel_index: Optional[int]
    parallel_count: Optional[int]
    #: None for a run without a schedule.
    logical_date: Optional[str]
    log: Log

    def __init__(
        self,
        task: Mapping[str, Any],
        log: Log,
        send: Callable[[Dict[str, Any]], None],
        on_terminate: Callable[[Callable[[], object]], None],
    ) -> None:
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
        self._cancelled: Optional[threading.Event] = None

    @property
    def cancelled(self) -> threading.Event:
        """An event that is set when the task is cancelled or times out. A function that never uses it is killed at once then."""
        if self._cancelled is None:
            cancelled = threading.Event()
            # In a thread of its own: the signal may interrupt a call of the event, whose lock the handler would then wait for.
            self._on_terminate(lambda: _thread.start_new_thread(cancelled.set, ()))
            self._cancelled = cancelled
        return self._cancelled

    def check(self) -> None:
        """Raises Cancelled when the task was cancelled or timed out."""
        if self.cancelled.is_set():
            raise Cancelled("the task was stopped")

    def heartbeat(self, details: Any = None) -> None:
        """Reports that the function is alive, with optional details."""
        self._send({} if details is None else {"details": details})

    def progress(self, fraction: float, details: Any = None) -> None:
        """Reports progress as a number from 0 to 1, with optional details."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress takes a number from 0 to 1, not {fraction}")
        self._send({"fraction": fraction, **({} if details is None else {"details": details})})

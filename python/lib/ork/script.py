"""Functions as commands: `command: python3 load.py`, also in images that contain Python only."""

import functools
import json
import os
import signal
import sys
from typing import Any, Callable, Generic, Optional, TypeVar

from .arguments import call, to_json
from .context import Context, Log

Result = TypeVar("Result")


class Task(Generic[Result]):
    """A function that is a task. It can be called like the function itself."""

    __wrapped__: Callable[..., Result]

    def __init__(self, function: Callable[..., Result]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **named: Any) -> Result:
        return self.__wrapped__(*args, **named)

    def main(self) -> None:
        """Runs the function as the command of a task: reads the file $ORK_INPUT, and writes its result to $ORK_OUTPUT.

        Without Ork, it reads nothing and prints the result.
        """
        path = os.environ.get("ORK_INPUT")
        value = None
        if path is not None:
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
        text = to_json(call(self, value, context_of_process()))
        output = os.environ.get("ORK_OUTPUT")
        if output is None:
            print(text)
            return
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)


def task(function: Callable[..., Result]) -> Task[Result]:
    """Declares a function as a task: `executor: python` calls it, and `NAME.main()` runs it in a script."""
    return Task(function)


def context_of_process() -> Context:
    """Returns the context of a command, from the variables that Ork sets. Progress and heartbeats of commands are not reported."""

    def variable(name: str) -> str:
        return os.environ.get(f"ORK_{name}", "")

    def number(name: str) -> Optional[int]:
        return int(variable(name)) if variable(name) else None

    fields = {
        "runId": variable("RUN_ID"),
        "taskId": variable("TASK_ID"),
        "taskName": variable("TASK_NAME"),
        "workflowName": variable("WORKFLOW_NAME"),
        "attempt": number("ATTEMPT") or 1,
        "parallelIndex": number("PARALLEL_INDEX"),
        "parallelCount": number("PARALLEL_COUNT"),
        "logicalDate": variable("LOGICAL_DATE") or None,
    }

    def on_terminate(stop: Callable[[], object]) -> None:
        signal.signal(signal.SIGTERM, lambda *_: stop())

    return Context(fields, Log(lambda: sys.stdout, lambda: sys.stderr), lambda update: None, on_terminate)

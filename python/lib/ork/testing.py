"""Calls functions of tasks in tests, without Ork.

    from ork.testing import call, context

    def test_load():
        ctx = context(attempt=2)
        assert call(load, {"day": "2026-01-31"}, ctx) == {"rows": 3}
        assert ctx.lines == ["loaded 3 rows"]
"""

import io
import json
from typing import Any, Callable, Dict, List, Optional

from . import arguments
from .context import Context, Log


class TestContext(Context):
    """A made-up context, which records what the function reports."""

    #: Not a test case, whatever its name says.
    __test__ = False

    def __init__(self, fields: Dict[str, Any]) -> None:
        self._text = io.StringIO()
        #: What the function reported by `progress` and `heartbeat`.
        self.updates: List[Dict[str, Any]] = []
        super().__init__(fields, Log(lambda: self._text, lambda: self._text), self.updates.append, lambda stop: None)

    @property
    def lines(self) -> List[str]:
        """The lines that the function wrote to `ctx.log`."""
        return self._text.getvalue().splitlines()

    def cancel(self) -> None:
        """Makes the function see that the task was cancelled."""
        self.cancelled.set()


def context(
    *,
    run_id: str = "00000000-0000-7000-8000-000000000000",
    task_id: str = "00000000-0000-7000-8000-000000000001",
    task_name: str = "task",
    workflow_name: str = "workflow",
    attempt: int = 1,
    parallel_index: Optional[int] = None,
    parallel_count: Optional[int] = None,
    logical_date: Optional[str] = None,
) -> TestContext:
    """Returns a made-up context."""
    return TestContext(
        {
            "runId": run_id,
            "taskId": task_id,
            "taskName": task_name,
            "workflowName": workflow_name,
            "attempt": attempt,
            "parallelIndex": parallel_index,
            "parallelCount": parallel_count,
            "logicalDate": logical_date,
        }
    )


def call(function: Callable[..., Any], input: Any = None, ctx: Optional[Context] = None) -> Any:
    """Calls the function as Ork does: with the arguments that its signature takes, and with input and result as JSON."""
    value = json.loads(arguments.to_json(input))
    result = arguments.call(function, value, context() if ctx is None else ctx)
    return json.loads(arguments.to_json(result))

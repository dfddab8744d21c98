"""Functions of tasks: what they receive, in tests and in scripts."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import ork
from ork.testing import call, context


@ork.task
def greet(input, ctx: ork.Context):
    """Greets."""
    ctx.log("attempt %d", ctx.attempt)
    return {"text": f"Hello {input['name']}", "task": ctx.task_name}


async def later(input):
    return input


def keywords(*, name, times=1, ctx):
    ctx.progress(0.5, {"name": name})
    return [name, times]


class Model:
    def __init__(self, name):
        self.name = name

    @classmethod
    def model_validate(cls, value):
        if "name" not in value:
            raise ValueError("name is missing")
        return cls(value["name"])

    def model_dump(self, mode):
        return {"name": self.name}


def with_model(input: Model) -> Model:
    return input


def until_cancelled(input, ctx):
    ctx.check()
    return "not cancelled"


class Functions(unittest.TestCase):
    def test_a_function_gets_the_input_and_a_made_up_context(self):
        ctx = context(task_name="greet", attempt=2)
        self.assertEqual(call(greet, {"name": "Ada"}, ctx), {"text": "Hello Ada", "task": "greet"})
        self.assertEqual(ctx.lines, ["attempt 2"])

    def test_a_task_is_still_a_function(self):
        self.assertEqual(greet({"name": "Ada"}, context())["text"], "Hello Ada")
        self.assertEqual((greet.__name__, greet.__doc__), ("greet", "Greets."))

    def test_values_of_the_input_are_passed_by_name(self):
        ctx = context()
        self.assertEqual(call(keywords, {"name": "Ada", "times": 2, "other": 1}, ctx), ["Ada", 2])
        self.assertEqual(ctx.updates, [{"fraction": 0.5, "details": {"name": "Ada"}}])

    def test_async_functions_and_models_work_as_in_a_task(self):
        self.assertEqual(call(later, [1, (2, 3)]), [1, [2, 3]])
        self.assertEqual(call(with_model, {"name": "Ada"}), {"name": "Ada"})
        with self.assertRaisesRegex(ork.Terminal, "the input does not fit Model: name is missing"):
            call(with_model, {})

    def test_what_is_not_json_is_an_error(self):
        with self.assertRaisesRegex(TypeError, "not JSON serializable"):
            call(lambda: {1, 2})

    def test_a_function_sees_that_it_was_cancelled(self):
        ctx = context()
        self.assertEqual(call(until_cancelled, None, ctx), "not cancelled")
        ctx.cancel()
        with self.assertRaises(ork.Cancelled):
            call(until_cancelled, None, ctx)

    def test_a_retry_takes_seconds_from_zero(self):
        self.assertEqual(ork.RetryAfter(2.5).seconds, 2.5)
        with self.assertRaises(ValueError):
            ork.RetryAfter(-1)


SCRIPT = """
import ork

@ork.task
def main(input, ctx):
    ctx.log("loading")
    return {"run": ctx.run_id, "index": ctx.parallel_index, "rows": (input or {}).get("rows")}

main.main()
"""


STOPPED_WHILE_IT_WAITS = """
import os
import signal
import threading
import time
import ork

def stop_soon(ms):
    time.sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGTERM)

@ork.task
def main(input, ctx):
    cancelled = ctx.cancelled
    threading.Thread(target=stop_soon, args=[STOP_MS]).start()
    while not cancelled.wait(0.00001):
        pass

for i in range(1500):
    STOP_MS = 0.2 + (i % 50) / 100
    main.main()
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(self.path("load.py"), "w") as file:
            file.write(SCRIPT)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_script(self, variables):
        command = [sys.executable, self.path("load.py")]
        return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True, timeout=60).stdout

    def test_a_script_reads_its_input_and_writes_its_output(self):
        with open(self.path("input.json"), "w") as file:
            json.dump({"rows": 3}, file)
        variables = {"ORK_INPUT": self.path("input.json"), "ORK_OUTPUT": self.path("output.json")}
        printed = self.run_script({**variables, "ORK_RUN_ID": "r1", "ORK_PARALLEL_INDEX": "4"})
        self.assertEqual(printed, "loading\n")
        with open(self.path("output.json")) as file:
            self.assertEqual(json.load(file), {"run": "r1", "index": 4, "rows": 3})

    def test_a_script_sees_a_stop_that_comes_while_it_looks_for_one(self):
        with open(self.path("load.py"), "w") as file:
            file.write(STOPPED_WHILE_IT_WAITS)
        self.assertEqual(self.run_script({}), "null\n" * 1500)

    def test_without_ork_a_script_prints_its_result(self):
        self.assertEqual(self.run_script({}), 'loading\n{"run":"","index":null,"rows":null}\n')


if __name__ == "__main__":
    unittest.main()

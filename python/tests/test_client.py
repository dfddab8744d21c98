"""The client, against a server: ORK_URL and ORK_API_KEY name it."""

import unittest

import ork

DEFINITION = """
name: python-client
params: { fail: false }
tasks:
  list: { command: 'echo "[1, 2, 3]"' }
  each: { foreach: "${{ tasks.list.output }}", command: "echo item ${{ item }}", depends_on: [list] }
  last: { command: "test ${{ params.fail }} = false", depends_on: [each] }
"""


class Clients(unittest.TestCase):
    def setUp(self):
        self.client = ork.Client()
        self.client.deploy(DEFINITION)

    def test_a_run_is_triggered_awaited_and_read(self):
        run = self.client.trigger("python-client", {"fail": False})
        done = self.client.wait(run["id"], timeout=120, every=0.05)
        self.assertEqual((done["id"], done["status"]), (run["id"], "success"))
        self.assertEqual(self.client.output(run["id"], "list"), [1, 2, 3])
        self.assertEqual(list(self.client.logs(run["id"], "each", index=1)), ["item 2"])
        self.assertEqual(list(self.client.logs(run["id"], "list", follow=True)), ["[1, 2, 3]"])
        tasks = [(task["name"], task["index"], task["status"]) for task in self.client.tasks(run["id"])]
        self.assertEqual(sorted(tasks, key=str)[:1], [("each", 0, "success")])
        self.assertEqual(len(tasks), 5)
        self.assertIn(run["id"], [each["id"] for each in self.client.runs(workflow="python-client", status="success")])
        self.assertIn("python-client", [each["name"] for each in self.client.workflows()])

    def test_a_failed_run_is_retried_and_cancelled(self):
        run = self.client.trigger("python-client", {"fail": True}, priority=7)
        self.assertEqual(self.client.wait(run["id"], timeout=120, every=0.05)["status"], "failed")
        self.client.retry(run["id"], from_task="last")
        self.assertEqual(self.client.wait(run["id"], timeout=120, every=0.05)["status"], "failed")
        self.client.deploy({"name": "python-slow", "tasks": {"nap": {"executor": "sleep", "duration": "1h"}}})
        slow = self.client.trigger("python-slow")
        with self.assertRaisesRegex(TimeoutError, slow["id"]):
            self.client.wait(slow["id"], timeout=0.01, every=0.005)
        self.client.explain(slow["id"])
        self.client.cancel(slow["id"])
        self.assertEqual(self.client.wait(slow["id"], timeout=120, every=0.05)["status"], "cancelled")

    def test_a_key_that_is_repeated_returns_the_first_run(self):
        runs = [self.client.trigger("python-client", idempotency_key="once")["id"] for _ in range(2)]
        self.assertEqual(len(set(runs)), 1)
        self.assertNotEqual(self.client.trigger("python-client")["id"], self.client.trigger("python-client")["id"])

    def test_errors_have_the_code_and_the_message_of_the_server(self):
        with self.assertRaises(ork.ApiError) as missing:
            self.client.run("nothing")
        self.assertEqual((missing.exception.status, missing.exception.code), (404, "NOT_FOUND"))
        with self.assertRaises(ork.ApiError) as invalid:
            self.client.deploy("name: x\ntasks: { a: { comand: x } }")
        self.assertEqual(invalid.exception.code, "VALIDATION_ERROR")
        self.assertIn("comand", str(invalid.exception) + str(invalid.exception.details))
        with self.assertRaises(ork.ApiError) as unauthorized:
            list(ork.Client(key="wrong").runs())
        self.assertEqual(unauthorized.exception.status, 401)


if __name__ == "__main__":
    unittest.main()

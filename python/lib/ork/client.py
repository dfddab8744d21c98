"""A client of Ork's REST API, with the standard library only.

    client = ork.Client("http://localhost:4000", key)
    run = client.wait(client.trigger("etl", {"day": "2026-01-31"})["id"])
"""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Dict, Iterator, Mapping, Optional, TypedDict, Union

FINISHED = ("success", "failed", "cancelled")
#: Requests that may be repeated are tried this often when the server cannot be reached or is not available.
TRIES = 5
MAX_DELAY = 5.0
PAGE = 100


class Run(TypedDict):
    id: str
    workflow: str
    version: int
    status: str
    trigger: str
    params: Dict[str, Any]
    error: Optional[str]
    created_at: str
    started_at: Optional[str]
    finished_at: Optional[str]
    tasks: Dict[str, int]


class RunTask(TypedDict):
    name: str
    index: Optional[int]
    path: str
    status: str
    attempt: int
    error: Optional[str]
    started_at: Optional[str]
    finished_at: Optional[str]


class ApiError(Exception):
    """A response of the server that reports an error."""

    #: HTTP status.
    status: int
    #: Such as NOT_FOUND.
    code: str
    details: Any

    def __init__(self, status: int, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.details = details


class Client:
    """Calls a server. The address and the key default to ORK_URL and ORK_API_KEY."""

    def __init__(self, url: Optional[str] = None, key: Optional[str] = None, *, timeout: float = 30.0) -> None:
        url = url or os.environ.get("ORK_URL")
        if not url:
            raise ValueError("the address of the server is missing: pass url, or set ORK_URL")
        self._url = url.rstrip("/") + "/api/v1"
        self._key = key if key is not None else os.environ.get("ORK_API_KEY")
        self._timeout = timeout

    # -- workflows ---------------------------------------------------------------------------------------------------------------

    def deploy(self, definition: Union[str, Mapping[str, Any]]) -> Dict[str, Any]:
        """Creates or updates a workflow, given as YAML text or as a dict. Workflows with files need `ork deploy`."""
        if isinstance(definition, str):
            return self._call("POST", "/workflows", body=definition.encode(), content_type="application/yaml")
        return self._call("POST", "/workflows", definition)

    def workflows(self) -> Iterator[Dict[str, Any]]:
        """Yields all workflows, by name."""
        return self._pages("/workflows", {})

    # -- runs --------------------------------------------------------------------------------------------------------------------

    def trigger(
        self,
        workflow: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        priority: Optional[int] = None,
        logical_date: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Run:
        """Starts a run. Without a key, each call starts one: a repeated request after a lost response does not start a second."""
        body = {
            "params": params,
            "priority": priority,
            "logical_date": logical_date,
            "idempotency_key": idempotency_key or str(uuid.uuid4()),
        }
        return self._call("POST", f"/workflows/{quote(workflow)}/runs", present(body), repeatable=True)

    def run(self, run_id: str) -> Run:
        return self._call("GET", f"/runs/{quote(run_id)}")

    def runs(
        self, *, workflow: Optional[str] = None, status: Optional[str] = None, trigger: Optional[str] = None
    ) -> Iterator[Run]:
        """Yields runs, newest first."""
        return self._pages("/runs", {"workflow": workflow, "status": status, "trigger": trigger})

    def wait(self, run_id: str, *, timeout: Optional[float] = None, every: float = 1.0) -> Run:
        """Returns the run when it has finished, whatever its status. Raises TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            run = self.run(run_id)
            if run["status"] in FINISHED:
                return run
            left = every if end is None else min(every, end - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"the run {run_id} is {run['status']} after {timeout} s")
            time.sleep(left)

    def cancel(self, run_id: str) -> Run:
        """Requests the end of a run. Use `wait` for the end itself."""
        return self._call("POST", f"/runs/{quote(run_id)}/cancel", {})

    def retry(self, run_id: str, *, from_task: Optional[str] = None) -> Run:
        """Runs the failed, skipped and cancelled tasks again, or a task and everything downstream of it."""
        return self._call("POST", f"/runs/{quote(run_id)}/retry", present({"from": from_task}))

    def explain(self, run_id: str) -> Dict[str, Any]:
        """Tells why the tasks of a run wait."""
        return self._call("GET", f"/runs/{quote(run_id)}/explain")

    # -- tasks -------------------------------------------------------------------------------------------------------------------

    def tasks(self, run_id: str) -> Iterator[RunTask]:
        """Yields all instances of all tasks."""
        return self._pages(f"/runs/{quote(run_id)}/tasks", {})

    def output(self, run_id: str, task: str, *, index: Optional[int] = None) -> Any:
        """Returns the output of a task; without an index, that of all instances of a fan-out."""
        return self._call("GET", f"{task_path(run_id, task)}/output", query={"index": index})

    def logs(
        self, run_id: str, task: str, *, attempt: Optional[int] = None, index: Optional[int] = None, follow: bool = False
    ) -> Iterator[str]:
        """Yields the lines of an attempt's log, by default of the latest. `follow`: waits for further lines until the task ends."""
        query = {"attempt": attempt, "index": index, "follow": "true" if follow else None}
        request = self._request("GET", f"{task_path(run_id, task)}/logs", query=query)
        with self._open(request, None if follow else self._timeout) as response:
            for line in response:
                yield line.decode("utf-8", "replace").rstrip("\r\n")

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Any]:
        cursor = None
        while True:
            page = self._call("GET", path, query={**query, "limit": PAGE, "cursor": cursor})
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _call(
        self,
        method: str,
        path: str,
        value: Optional[Mapping[str, Any]] = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[bytes] = None,
        content_type: str = "application/json",
        repeatable: bool = False,
    ) -> Any:
        if value is not None:
            body = json.dumps(value).encode()
        request = self._request(method, path, query=query, body=body, content_type=content_type)
        tries = TRIES if method == "GET" or repeatable else 1
        for attempt in range(1, tries + 1):
            try:
                with self._open(request, self._timeout) as response:
                    text = response.read()
                return json.loads(text) if text else None
            except (ApiError, OSError) as error:
                if attempt == tries or (isinstance(error, ApiError) and error.status != 503):
                    raise
                time.sleep(min(MAX_DELAY, 0.2 * 2**attempt))

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Optional[bytes] = None,
        content_type: str = "application/json",
    ) -> urllib.request.Request:
        given = present(query or {})
        url = f"{self._url}{path}{'?' + urllib.parse.urlencode(given) if given else ''}"
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        if body is not None:
            headers["Content-Type"] = content_type
        return urllib.request.Request(url, data=body, headers=headers, method=method)

    def _open(self, request: urllib.request.Request, timeout: Optional[float]) -> Any:
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as response:
            with response:
                raise error_of(response.code, response.read()) from None


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def task_path(run_id: str, task: str) -> str:
    return f"/runs/{quote(run_id)}/tasks/{quote(task)}"


def present(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def error_of(status: int, body: bytes) -> ApiError:
    try:
        error = json.loads(body)["error"]
        return ApiError(status, error["code"], error["message"], error.get("details"))
    except (ValueError, KeyError, TypeError):
        return ApiError(status, "INTERNAL", f"the server replied with status {status}: {body[:200].decode('utf-8', 'replace')}")

"""The worker process for functions in Python: reads the frame of a task, calls the function, writes a message, one task at a time.

Ork's pool starts it with pipes for messages as descriptors 3 (to write) and 4 (to read); it exits when the latter closes.
It needs only Python 3.9 and its standard library.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Removes this file's own folder, which Python puts first.
sys.path[:] = [os.path.join(HERE, "lib")] + [path for path in sys.path if os.path.abspath(path or ".") != HERE]

if sys.version_info < (3, 9):
    sys.exit(f"functions need Python 3.9 or newer, and {sys.executable} is {sys.version.split()[0]}")

import importlib
import importlib.util
import inspect
import json
import resource
import signal
import threading
import time
import traceback

import ork
from ork.arguments import call, to_json

UP = 3
DOWN = 4
PROGRESS_SECONDS = 0.1
MAX_MESSAGE = 4096

OWN_MODULES = set(sys.modules)

# Compiled files contain the time of their source in seconds: a change within a second would be missed.
sys.dont_write_bytecode = True
for descriptor in (UP, DOWN):
    os.set_inheritable(descriptor, False)
for stream in (sys.stdout, sys.stderr):
    stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)

PID = os.getpid()
send_lock = threading.Lock()


def close_messages():
    """Replaces the pipes by /dev/null, so that their numbers are not used for other files."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (UP, DOWN):
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)


os.register_at_fork(after_in_child=close_messages)


def send(line):
    # A child that a function has forked must not report in its place.
    if os.getpid() != PID:
        return
    data = line.encode("utf-8", "surrogatepass") + b"\n"
    with send_lock:
        while data:
            data = data[os.write(UP, data) :]


# -- code ----------------------------------------------------------------------------------------------------------------------

functions = {}
modules = {}
recorded_files = set()


def load_function(frame):
    key = (frame["root"], frame["file"], frame["function"])
    if key not in functions:
        functions[key] = load(*key)
        report_files(always=True)
    return functions[key]


def load(root, file, name):
    key = (root, file)
    if key not in modules:
        modules[key] = load_module(root, file)
    module = modules[key]
    found = getattr(module, name or "main", None)
    if callable(found):
        return found
    own = [one for one, value in vars(module).items() if is_function(value) and value.__module__ == module.__name__]
    others = f"it has {', '.join(own)}" if own else "it has no functions"
    hint = "" if name else "; name one with `function`"
    raise AttributeError(f"{file} has no function {name or 'main'}: {others}{hint}")


def is_function(value):
    return inspect.isfunction(value) or isinstance(value, ork.Task)


def load_module(root, file):
    is_file = file.endswith(".py") or "/" in file
    path = os.path.join(root, file) if is_file else root
    if is_file and not os.path.isfile(path):
        raise FileNotFoundError(f"{file} does not exist in {root}")
    # Like Python for a script; the folder of the workflow comes after that of the file.
    for folder in (root, os.path.dirname(path)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    if is_file:
        module_name = os.path.splitext(os.path.basename(file))[0]
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None:
            raise ImportError(f"{file} is not a Python file: its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        record_file(path)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(module_name, None)
            raise
        return module
    return importlib.import_module(file)


new_files = []


def record_file(path):
    if path in recorded_files:
        return
    try:
        found = os.stat(path)
    except OSError:
        return
    recorded_files.add(path)
    new_files.append([path, found.st_mtime_ns // 1_000_000, found.st_size])


known_modules = set(OWN_MODULES)


def report_files(always=False):
    """Reports the files that were loaded since the last call, without Python's library and installed packages."""
    if len(sys.modules) != len(known_modules):
        for name in set(sys.modules) - known_modules:
            known_modules.add(name)
            path = getattr(sys.modules.get(name), "__file__", None)
            if path and "site-packages" not in path and not path.startswith((sys.base_prefix, HERE)):
                record_file(path)
    if new_files or always:
        send("F " + to_json(new_files))
        new_files.clear()


# -- processes that a function starts --------------------------------------------------------------------------------------------

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
started_processes = False


def on_audit(event, _args):
    global started_processes
    if event in STARTS:
        started_processes = True


sys.addaudithook(on_audit)


def has_left_processes(attempt_id):
    """Returns True when processes with this attempt id in their environment are alive."""
    global started_processes
    if not started_processes:
        return False
    started_processes = False
    mark = b"\0ORK_ATTEMPT_ID=" + os.fsencode(attempt_id) + b"\0"
    try:
        # Checks twice, because a process that forks and exits during the first check may be missed together with its child.
        return any(is_alive(pid, mark) for _ in range(2) for pid in os.listdir("/proc") if pid.isdigit())
    except OSError:
        return True


def is_alive(pid, mark):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if mark not in b"\0" + file.read():
                return False
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


# -- one task --------------------------------------------------------------------------------------------------------------------


class Progress:
    """Sends the latest update, at most ten times a second."""

    def __init__(self, task):
        self._task = task
        self._lock = threading.Lock()
        self._pending = {}
        self._waits = False
        self._timer = None
        self._sent = float("-inf")

    def __call__(self, update):
        with self._lock:
            self._pending.update(update)
            self._waits = True
            wait = self._sent + PROGRESS_SECONDS - time.monotonic()
            if wait > 0:
                if self._timer is None:
                    self._timer = threading.Timer(wait, self.flush)
                    self._timer.daemon = True
                    self._timer.start()
                return
        self.flush()

    def flush(self):
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if not self._waits:
                return
            # Before it is written: one that is not JSON must not be written again.
            update, self._pending, self._waits = self._pending, {}, False
            self._sent = time.monotonic()
            text = to_json(update)
        send(f"P {self._task} {text}")

    def end(self):
        """Sends the last update, and waits for the thread of the timer."""
        timer = self._timer
        self.flush()
        if timer is not None:
            timer.join()


def on_terminate(stop):
    """Calls `stop` on SIGTERM. Only the main thread can handle signals; in any other, SIGTERM ends the process."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: stop())


def set_environment(env):
    """Replaces the environment of the earlier task."""
    for name in [name for name in os.environ if name not in env]:
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def output_json(value, max_bytes):
    try:
        text = to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"what the function returned cannot be written as JSON: {error}") from error
    if len(text) > max_bytes:
        raise ValueError(
            f"its output of {len(text)} bytes is larger than the limit of {max_bytes} bytes:"
            " write it to a file or store and give its address"
        )
    return text


def text_of(error):
    """Returns str(error), or an empty text if that fails."""
    try:
        return str(error)
    except Exception:
        return ""


def error_json(error):
    message = text_of(error) or type(error).__name__
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE] + "…"
    report = {"message": message}
    if isinstance(error, ork.Terminal):
        report["terminal"] = True
    if isinstance(error, ork.RetryAfter):
        report["retryAfterMs"] = round(error.seconds * 1000)
    return to_json(report)


def print_error(error):
    """Prints the error with the function's stack, without the frames of Ork."""
    stack = error.__traceback__
    while stack is not None and os.path.abspath(stack.tb_frame.f_code.co_filename).startswith(HERE + os.sep):
        stack = stack.tb_next
    try:
        traceback.print_exception(type(error), error, stack)
    except Exception as problem:
        print(f"{type(error).__name__}: its stack cannot be printed: {text_of(problem)}", file=sys.stderr)


def flush_streams():
    for stream in {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}:
        try:
            stream.flush()
        except Exception:
            pass


LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


def process_state():
    """Describes what a function may change for the next one: threads, timers, signals, umask, priority, limits, streams."""
    umask = os.umask(0o077)
    os.umask(umask)
    return (
        len(sys._current_frames()),
        signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        [signal.getsignal(number) for number in signal.valid_signals()],
        umask,
        os.getpriority(os.PRIO_PROCESS, 0),
        [resource.getrlimit(limit) for limit in LIMITS],
        sys.stdout,
        sys.stderr,
        sys.stdin,
    )


log = ork.Log(lambda: sys.stdout, lambda: sys.stderr)


def perform(frame):
    started_at = time.perf_counter()
    progress = Progress(frame["id"])
    kind = "O"
    loaded = False
    try:
        set_environment(frame["env"])
        os.chdir(frame["cwd"])
        context = ork.Context(frame["context"], log, progress, on_terminate)
        function = load_function(frame)
        loaded = True
        started_at = time.perf_counter()
        value = call(function, frame["input"], context)
        text = output_json(value, frame["maxOutputBytes"])
    except (Exception, KeyboardInterrupt, GeneratorExit) as error:
        kind = "E"
        print_error(error)
        text = error_json(error)
    if os.getpid() != PID:
        # A child that the function has forked ends here.
        flush_streams()
        os._exit(0 if kind == "O" else 1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    report_files()
    progress.end()
    flush_streams()
    # Retires the process also when the code was not loaded, because partially loaded modules stay in memory.
    left = has_left_processes(frame["env"].get("ORK_ATTEMPT_ID", "")) or process_state() != INITIAL_STATE
    retire = 1 if left or not loaded else 0
    send(f"{kind} {frame['id']} {(time.perf_counter() - started_at) * 1000:.2f} {retire} {text}")


def main():
    with os.fdopen(DOWN, "rb", closefd=False) as frames:
        global INITIAL_STATE
        INITIAL_STATE = process_state()
        send("R")
        for line in frames:
            perform(json.loads(line))
    # Exits even if a function has left threads running.
    flush_streams()
    os._exit(0)


main()

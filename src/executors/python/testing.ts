// The functions of the conformance suite in Python.

import type { Language } from "../conformance/function-fixture.ts"

export const python: Language = {
  name: "Python",
  extension: "py",
  functions: `
import asyncio, io, os, resource, signal, subprocess, sys, threading, time
import ork

def echo(input, ctx): return input
async def later(input, ctx):
    await asyncio.sleep(0)
    return input
def nothing(input, ctx): pass
def meet(count, ctx):
    os.mkdir(f"met-{os.getpid()}")
    while len([name for name in os.listdir(".") if name.startswith("met-")]) < count: time.sleep(0.002)
def context(_, c):
    return [c.run_id, c.task_id, c.task_name, c.workflow_name, c.attempt, c.parallel_index, c.parallel_count, c.logical_date]
def environment(input, ctx): return dict(os.environ)
def folder(input, ctx): return os.getcwd()
def talk(input, ctx):
    print("printed")
    print("complained", file=sys.stderr)
    subprocess.run(["sh", "-c", "echo from a child"], check=True)
    ctx.log("logged")
    ctx.log.warning("careful")
def flood(input, ctx):
    for i in range(20000): print("line", i, "x" * 40)
def blab(input, ctx):
    print("it is", input)
    raise ValueError("I know " + input)
def fail(input, ctx): raise KeyError2("no such row")
class KeyError2(Exception): pass
class Odd(Exception):
    def __init__(self, kind): self.kind = kind
    def __str__(self):
        if self.kind == "number": return 42
        if self.kind == "object": return {"code": "E1"}
        if self.kind == "nothing": return None
        raise ValueError("from the getter")
def throw_odd(kind, ctx): raise Odd(kind)
def give_up(input, ctx): raise ork.Terminal("bad input")
def come_back(input, ctx): raise ork.RetryAfter(2.5)
def not_json(input, ctx): return {"big": {1, 2}}
def large(size, ctx): return "x" * size
def measure(input, ctx): return len(input["text"])
def advance(input, ctx):
    ctx.progress(0.25)
    for i in range(1000): ctx.heartbeat({"rows": i})
    ctx.progress(1, {"rows": 3})
def report_badly(input, ctx):
    try: ctx.progress(0.5, {"odd": object()})
    except TypeError as error: print(error)
    return "done"
def spin(input, ctx):
    print("spinning")
    while True: pass
def listen(input, ctx):
    cancelled = ctx.cancelled
    print("listening")
    while not cancelled.wait(0.01): pass
    print("cleaned up")
def ignore(input, ctx):
    ctx.cancelled
    print("ignoring")
    while True: time.sleep(600)
def die(input, ctx): os.kill(os.getpid(), 9)
def leave(input, ctx): os._exit(3)
def spawn(mark, ctx):
    subprocess.Popen(["setsid", "sleep", mark], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
def spawn_and_wait(mark, ctx):
    subprocess.Popen(["sleep", mark])
    print("waiting")
    time.sleep(600)
def leave_running(text, ctx):
    def speak():
        while True:
            print(text)
            time.sleep(0.001)
    threading.Thread(target=speak, daemon=True).start()
def pause(input, ctx): time.sleep(0.05)
def change(what, ctx):
    if what == "umask": os.umask(0o007)
    if what == "priority": os.nice(1)
    if what == "output": sys.stdout = io.StringIO()
    if what == "signals": signal.signal(signal.SIGUSR2, lambda *_: None)
    if what == "limits": resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if what == "alarm": signal.alarm(600)
remembered = ""
def remember(text, ctx):
    global remembered
    remembered = text
def recall(input, ctx): print("recalled " + remembered)
def send(text, ctx): os.write(3, text.encode())
def fork(input, ctx):
    pid = os.fork()
    if pid == 0: return "child"
    os.waitpid(pid, 0)
    return "parent"
def fork_and_fail(input, ctx):
    pid = os.fork()
    if pid == 0: raise ValueError("in the child")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def user(input, ctx): return os.getuid()
`,
  returning: (value) => `def main(input, ctx): return ${value}\n`,
  importing: {
    main: "import lib\ndef main(input, ctx): return lib.value\n",
    lib: (value) => `value = ${value}\n`,
    libName: "lib.py",
  },
}

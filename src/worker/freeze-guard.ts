// A worker that is stopped (SIGSTOP) past its lease is given up on, and its tasks run elsewhere, but its own processes would go on. So a
// tiny shell beside it watches it, and ends them before the lease does. It ends with the worker.

import { type ChildProcess, spawn } from "node:child_process"

/** Looks in one lease, and how many times in a row the worker must be stopped: the tasks are gone well before the lease is. */
const LOOKS = 10
const TIMES = 5

/** $1 the worker, $2 seconds between looks, $3 times. State is the first word after the command's name, which may hold anything. */
const WATCH = `
stopped=0
while read -r line 2>/dev/null < /proc/$1/stat; do
  rest=\${line##*) }
  case \${rest%% *} in T|t) stopped=$((stopped + 1)) ;; *) stopped=0 ;; esac
  if [ $stopped -ge $3 ]; then
    for child in $(cat /proc/$1/task/*/children); do
      [ $child = $$ ] || kill -s KILL -- -$child $child
    done
  fi
  sleep $2
done`

/** Gives a function that ends it. Without /proc there is nothing to watch. */
export const startFreezeGuard = (leaseMs: number): (() => void) => {
  if (process.platform !== "linux") return () => {}
  const seconds = String(leaseMs / LOOKS / 1000)
  const guard: ChildProcess = spawn("/bin/sh", ["-c", WATCH, "ork-guard", String(process.pid), seconds, String(TIMES)], {
    stdio: "ignore",
    detached: true,
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
  })
  // Nothing is lost without it but this one guarantee.
  guard.on("error", () => {})
  guard.unref()
  return () => void guard.kill("SIGKILL")
}

// Kills the task processes of a frozen worker (SIGSTOP) before its lease expires. Otherwise they would keep running while other
// workers run the same tasks. A small shell process watches the worker, and ends with it.

import { type ChildProcess, spawn } from "node:child_process"

/** Checks per lease. */
const CHECKS = 10
/** Consecutive checks that must find the worker frozen; tasks are killed well before the lease expires. */
const FROZEN_CHECKS = 5

/** $1: process id of the worker, $2: seconds between checks, $3: checks. The state follows the command name, which may contain anything. */
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

/** Returns a function that stops the guard. Does nothing on systems without /proc. */
export const startFreezeGuard = (leaseMs: number): (() => void) => {
  if (process.platform !== "linux") return () => {}
  const seconds = String(leaseMs / CHECKS / 1000)
  const guard: ChildProcess = spawn(
    "/bin/sh",
    ["-c", WATCH, "ork-guard", String(process.pid), seconds, String(FROZEN_CHECKS)],
    {
      stdio: "ignore",
      detached: true,
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    },
  )
  // The worker also works without the guard.
  guard.on("error", () => {})
  guard.unref()
  return () => void guard.kill("SIGKILL")
}

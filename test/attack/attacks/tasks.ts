// Tasks that attack the server that runs them.

import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import type { Attack } from "../attack.ts"
import { PLANTED, type Target } from "../target.ts"

/** Runs a script as a task and returns everything that the API shows of it. */
const run = async (target: Target, script: string): Promise<string> => {
  const rejected = await target.deploy({ name: "script", tasks: { a: { command: script, timeout: "20s" } } })
  if (rejected !== null) throw new Error(rejected)
  const ended = await target.run("script")
  return "id" in ended ? await target.everythingOf(ended.id, "a") : ""
}

const readsSecret = (name: string, script: string, { quick = false } = {}): Attack => ({
  name: `task: ${name}`,
  quick,
  async run(target) {
    const shown = await run(target, script)
    if (shown.includes(target.key)) return "the task read the admin key"
    const found = Object.entries(PLANTED).find(([, value]) => shown.includes(value))
    return found === undefined ? null : `the task read ${found[0]}`
  },
})

/** Folders inside the data folder, which only its owner enters, that tasks of other users get mounted. */
const TASK_FOLDERS = new Set(["work", "bundles", "upstream", "pushed", "io"])

export const taskAttacks: Attack[] = [
  readsSecret("reads the environment of every process", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' || true", {
    quick: true,
  }),
  readsSecret(
    "reads the memory of every process",
    "for m in /proc/[0-9]*/mem; do dd if=$m bs=1 count=1 2>/dev/null; done | head -c 1; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true",
  ),
  readsSecret(
    "reads the key file",
    'cat "$HOME/.ork/admin.key" ../../.ork/admin.key ../admin.key 2>/dev/null; find $HOME $OLDPWD /tmp -name admin.key -exec cat {} + 2>/dev/null; true',
    { quick: true },
  ),
  readsSecret(
    "reads the key file after unshare -m",
    "unshare -m sh -c 'umount -l /proc; find $HOME $OLDPWD /tmp -name admin.key -exec cat {} +' 2>/dev/null; unshare -Urm sh -c 'find $HOME $OLDPWD /tmp -name admin.key -exec cat {} +' 2>/dev/null; true",
  ),
  readsSecret(
    "reads the key file through another process's root",
    "for r in /proc/[0-9]*/root; do cat $r$HOME/.ork/admin.key; done 2>/dev/null; for c in /proc/[0-9]*/cwd; do cat $c/.ork/admin.key; done 2>/dev/null; true",
  ),
  readsSecret(
    "reads open files of the server",
    "for f in /proc/[0-9]*/fd/*; do head -c 4096 $f; done 2>/dev/null | strings 2>/dev/null | head -c 100000; true",
  ),
  {
    name: "task: reads the database",
    async run(target) {
      const file = join(target.folder, ".ork/ork.db")
      const shown = await run(target, `if head -c 15 ${file} 2>/dev/null | grep -q SQLite; then echo DATABASE''-READ; fi; true`)
      return shown.includes("DATABASE-READ") ? "the task read the database file" : null
    },
  },
  {
    name: "task: becomes root by the number of its user",
    quick: true,
    async run(target) {
      for (const user of ["root", "0", "00", "+0"]) {
        const rejected = await target.deploy({ name: "root", tasks: { a: { command: "id", run_as: user } } })
        if (rejected === null) return `run_as: ${user} was accepted`
      }
      return null
    },
  },
  {
    name: "task: mounts the machine into a container",
    quick: true,
    async run(target) {
      const container = { executor: "docker", image: "busybox", command: "true" }
      for (const fields of [{ working_dir: "/" }, { working_dir: "../.." }, { docker: { mounts: ["/:/host"] } }]) {
        const rejected = await target.deploy({ name: "mounts", tasks: { a: { ...container, ...fields } } })
        if (rejected === null) return `${JSON.stringify(fields)} was accepted`
      }
      return null
    },
  },
  {
    name: "task: kills the server",
    quick: true,
    async run(target) {
      await run(
        target,
        "kill -9 -1; kill -9 $PPID; for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p != $$ ] && kill -9 $p; done 2>/dev/null; true",
      ).catch(() => "")
      return target.alive ? null : "the task killed the server"
    },
  },
  {
    name: "task: fills the process table",
    async run(target) {
      await run(target, "i=0; while [ $i -lt 20000 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; true").catch(() => "")
      const { status } = await target.call("GET", "/health", { key: null })
      return status === 200 ? null : "the server no longer responds"
    },
  },
  {
    name: "files: only the user of the server reads its data folder",
    quick: true,
    async run(target) {
      const open: string[] = []
      const check = (path: string): void => {
        const stats = statSync(path)
        if ((stats.mode & 0o077) !== 0) open.push(`${path} has mode ${(stats.mode & 0o777).toString(8)}`)
        if (stats.isDirectory()) for (const name of readdirSync(path)) if (!TASK_FOLDERS.has(name)) check(join(path, name))
      }
      check(join(target.folder, ".ork"))
      return open.length === 0 ? null : `${open.length} files, for example ${open[0]}`
    },
  },
]

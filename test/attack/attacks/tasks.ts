// Tasks that attack the server that runs them.

import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import type { Attack } from "../attack.ts"
import { PLANTED, type Target } from "../target.ts"

/** Runs a script as a task and returns everything that the API shows of it. */
const run = async (target: Target, script: string, fields: object = {}): Promise<string> => {
  const rejected = await target.deploy({ name: "script", tasks: { a: { command: script, timeout: "20s", ...fields } } })
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
const TASK_FOLDERS = new Set(["work", "bundles", "upstream", "python", "pushed", "io"])

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
    'cat "$HOME/.ork/admin.key" ../../.ork/admin.key ../admin.key 2>/dev/null; find $HOME $OLDPWD /tmp -maxdepth 3 -name admin.key -exec cat {} + 2>/dev/null; true',
    { quick: true },
  ),
  readsSecret(
    "reads the key file after unshare -m",
    "unshare -m sh -c 'umount -l /proc; find $HOME $OLDPWD /tmp -maxdepth 3 -name admin.key -exec cat {} +' 2>/dev/null; unshare -Urm sh -c 'find $HOME $OLDPWD /tmp -maxdepth 3 -name admin.key -exec cat {} +' 2>/dev/null; true",
  ),
  readsSecret(
    "reads the key file through another process's root",
    "for r in /proc/[0-9]*/root; do cat $r$HOME/.ork/admin.key; done 2>/dev/null; for c in /proc/[0-9]*/cwd; do cat $c/.ork/admin.key; done 2>/dev/null; true",
  ),
  readsSecret(
    "reads open files of the server",
    "for f in /proc/[0-9]*/fd/*; do timeout 2 head -c 4096 $f; done 2>/dev/null | strings 2>/dev/null | head -c 100000; true",
  ),
  {
    name: "task: reads the database",
    async run(target) {
      const file = join(target.folder, ".ork/ork.db")
      const shown = await run(target, `if head -c 15 ${file} 2>/dev/null | grep -q SQLite; then echo DATABASE''-READ; fi; true`)
      return shown.includes("DATABASE-READ") ? "the task read the database file" : null
    },
  },
  readsSecret(
    "reads the key file as root of a namespace of its own",
    "unshare -Urmpf --mount-proc sh -c 'mount -t tmpfs none /mnt; umount -l $HOME/.ork; umount -l /proc; cat $HOME/.ork/admin.key' 2>/dev/null; nsenter -t 1 -m cat $HOME/.ork/admin.key 2>/dev/null; nsenter -t $PPID -a cat $HOME/.ork/admin.key 2>/dev/null; true",
  ),
  readsSecret(
    "reads the key file through a link in the place of its output",
    'ln -sf "$HOME/.ork/admin.key" "$ORK_OUTPUT" 2>/dev/null || { rm -f "$ORK_OUTPUT"; ln -s "$HOME/.ork/admin.key" "$ORK_OUTPUT"; }; true',
    { quick: true },
  ),
  readsSecret(
    "reads the key file through a hard link in the place of its output",
    'rm -f "$ORK_OUTPUT"; ln "$HOME/.ork/admin.key" "$ORK_OUTPUT" 2>/dev/null; true',
  ),
  {
    name: "task: stores files of the server as its artifacts",
    quick: true,
    async run(target) {
      const data = join(target.folder, ".ork")
      const tries = [
        { command: "true", working_dir: data, artifacts: ["admin.key"] },
        { command: "true", working_dir: target.folder, artifacts: [".ork/admin.key"] },
        { command: "true", working_dir: "/etc", artifacts: ["shadow"] },
        { command: `ln -s ${data}/admin.key key`, artifacts: ["key"] },
        { command: `ln -s ${data} data`, artifacts: ["data/admin.key"] },
      ]
      for (const fields of tries) {
        const rejected = await target.deploy({ name: "stores", tasks: { a: { timeout: "20s", ...fields } } })
        if (rejected !== null) continue
        const ended = await target.run("stores")
        if (!("id" in ended)) continue
        const { body } = await target.call("GET", `/runs/${ended.id}/tasks/a/artifacts`)
        const stored = body["items"] as { path: string }[]
        if (stored.length > 0) return `stored ${stored.map(({ path }) => path).join(", ")} of ${JSON.stringify(fields)}`
      }
      return null
    },
  },
  {
    name: "task: its requirements include files of the server, or a pipe that nobody writes to",
    quick: true,
    async run(target) {
      const key = join(target.folder, ".ork/admin.key")
      const needs = (lines: string[]) => ({ command: "true", timeout: "10s", requirements: lines })
      const after = (command: string, lines: string[]) => ({ z: { command }, a: { ...needs(lines), depends_on: ["z"] } })
      const tries = [
        { a: needs([`-r ${key}`]) },
        { a: needs([`--requirement=${key}`]) },
        after(`ln -sf ${key} key.txt`, ["-r key.txt"]),
        after(`ln -sfn ${join(key, "..")} data`, ["-r data/admin.key"]),
        after("mkfifo pipe.txt", ["-r pipe.txt"]),
      ]
      for (const tasks of tries) {
        const rejected = await target.deploy({ name: "requires", tasks })
        if (rejected !== null) throw new Error(rejected)
        const ended = await target.run("requires")
        if (!("id" in ended) || ended.status === "running") return "the run never ends"
        if ((await target.everythingOf(ended.id, "a")).includes(target.key)) return "the error shows the admin key"
      }
      return null
    },
  },
  {
    name: "task: makes its output a pipe that nobody writes to",
    async run(target) {
      const rejected = await target.deploy({
        name: "pipes",
        tasks: { a: { command: 'rm -f "$ORK_OUTPUT"; mkfifo "$ORK_OUTPUT"', timeout: "20s" } },
      })
      if (rejected !== null) throw new Error(rejected)
      const run = await target.run("pipes")
      return "id" in run && run.status !== "running" ? null : "the run never ends"
    },
  },
  {
    name: "task: writes to the data folder",
    async run(target) {
      const data = join(target.folder, ".ork")
      await run(
        target,
        `for f in admin.key ork.db planted; do echo x >> ${data}/$f; done 2>/dev/null; rm -rf ${data}/objects 2>/dev/null; mv ${data} ${data}-moved 2>/dev/null; true`,
      )
      const isKept = existsSync(join(data, "admin.key")) && readFileSync(join(data, "admin.key"), "utf8").trim() === target.key
      return isKept && !existsSync(join(data, "planted")) ? null : "the task changed the data folder"
    },
  },
  {
    // Without root, a task cannot run as another user, and fails.
    name: "task: run as another user, it reads the callback token of a deferred task",
    async run(target) {
      const signal = join(target.canaries, "victim")
      const rejected = await target.deploy({
        name: "victim",
        tasks: { a: { command: `touch ${signal}; sleep 3`, defer: true, timeout: "20s" } },
      })
      if (rejected !== null) throw new Error(rejected)
      const victim = target.run("victim")
      const data = join(target.folder, ".ork")
      const script = `i=0; until [ -e ${signal} ] || [ $i -gt 50 ]; do sleep 0.1; i=$((i+1)); done
        cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep '^ORK_CALLBACK'
        grep -rhs 'callback' ${data} | head -c 10000; cat ${data}/io/*/* 2>/dev/null; true`
      const shown = await run(target, script, { run_as: "daemon" })
      await victim
      rmSync(signal, { force: true })
      return /ORK_CALLBACK\w*=\S/.test(shown) ? "the task read a token" : null
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
    flood: true,
    async run(target) {
      await run(
        target,
        "kill -9 -1; kill -9 $PPID; for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p != $$ ] && kill -9 $p; done 2>/dev/null; true",
      ).catch(() => "")
      return target.alive ? null : "the task killed the server"
    },
  },
  {
    name: "task: fills the memory of the machine",
    flood: true,
    async run(target) {
      const command = "dd if=/dev/zero of=/dev/null bs=1500M count=1"
      const rejected = await target.deploy({
        name: "eater",
        tasks: { a: { command, timeout: "20s", resources: { memory: "64Mi" } } },
      })
      if (rejected !== null) throw new Error(rejected)
      const run = await target.run("eater")
      const { status } = await target.call("GET", "/health", { key: null })
      if (status !== 200) return "the server no longer responds"
      return "id" in run && run.status === "failed" ? null : "the task exceeded its limit"
    },
  },
  {
    name: "task: fills the process table",
    flood: true,
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

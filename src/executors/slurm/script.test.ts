import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { ManualClock } from "../conformance/manual-clock.ts"
import { assignment } from "../conformance/fixture.ts"
import { Batcher } from "./batcher.ts"
import { isPermanent, mayHaveArrived, outcomeOf } from "./classify.ts"
import { resourceOptions, runScript, sbatchOptions } from "./script.ts"

test("resources and options become options of sbatch", () => {
  const fields = {
    slurm: {
      partition: "gpu",
      account: "lab",
      qos: "high",
      time: "26h",
      gres: "gpu:2",
      constraint: "a100",
      nodes: 2,
      tasks: 4,
      options: ["--exclusive"],
    },
  }
  const work = assignment("/w", { shell: "x" }, { fields, node: { resources: { cpu: 2.5, memoryBytes: 1_000_000_001 } } })
  expect(resourceOptions(work)).toEqual([
    "--partition=gpu",
    "--account=lab",
    "--qos=high",
    "--time=1-02:00:00",
    "--gres=gpu:2",
    "--constraint=a100",
    "--nodes=2",
    "--ntasks=4",
    "--cpus-per-task=3",
    "--mem=954M",
    "--exclusive",
  ])
  expect(resourceOptions(assignment("/w", null))).toEqual([])
  const one = sbatchOptions({ name: "ork-a", folder: "/s/ork-a", array: null, resources: [] })
  expect(one).toContain("--output=/s/ork-a/0/stdout")
  const many = sbatchOptions({ name: "ork-a", folder: "/s/ork-a", array: "0-9", resources: ["--mem=1M"] })
  expect(many).toEqual(expect.arrayContaining(["--array=0-9", "--error=/s/ork-a/%a/stderr", "--mem=1M"]))
})

/** Runs the script twice. */
const runScriptOf = (work: ReturnType<typeof assignment>): { out: string; exit: string; again: string } => {
  const folder = mkdtempSync(join(tmpdir(), "it's a folder "))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, "input.json"), '{"n":1}')
  writeFileSync(join(folder, "run.sh"), runScript({ ...work, workingDir: folder }, folder))
  const run = (): string => {
    try {
      return execFileSync("sh", [join(folder, "run.sh")], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
    } catch (error) {
      return (error as { stdout: string }).stdout
    }
  }
  const out = run()
  return { out, exit: readFileSync(join(folder, "exit"), "utf8"), again: run() }
}

test("values never become shell syntax, and the exit code is written to a file", () => {
  const odd = 'it\'s $HOME `id` "x"\n\\ end'
  const ran = runScriptOf(assignment("", { shell: 'printf "%s|" "$ODD"; cat; exit 9' }, { env: { ODD: odd } }))
  expect(ran).toEqual({ out: `${odd}|{"n":1}`, exit: "9\n", again: "" })
  expect(runScriptOf(assignment("", { argv: ["printf", "%s|", "a b", "$X", "'"] })).out).toBe("a b|$X|'|")
})

test("a command runs once, however often it is submitted", () => {
  expect(runScriptOf(assignment("", { shell: "echo once" }))).toEqual({ out: "once\n", exit: "0\n", again: "" })
})

test("items that are added together are flushed together, up to the limit of an array", () => {
  const flushed: string[][] = []
  const timers: (() => void)[] = []
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after: (_ms: number, fn: () => void) => {
      timers.push(fn)
      return () => void timers.splice(timers.indexOf(fn), timers.includes(fn) ? 1 : 0)
    },
  }
  const batcher = new Batcher<string>(
    clock,
    () => 3,
    (items) => flushed.push(items),
  )
  for (const item of ["a", "b", "c", "d"]) batcher.add("one", item, 9)
  batcher.add("two", "x", 9)
  expect(flushed).toEqual([["a", "b", "c"]])
  while (timers.length > 0) timers[0]!()
  expect(flushed).toEqual([["a", "b", "c"], ["d"], ["x"]])
})

test("a batch waits for items that keep arriving, but not for ever, and not when it is complete", async () => {
  const flushed: number[] = []
  const clock = new ManualClock()
  const batcher = new Batcher<number>(
    clock,
    () => 1000,
    (items) => flushed.push(items.length),
  )
  for (let i = 0; i < 16; i++) {
    batcher.add("fan-out", i, 500)
    await clock.pass(100)
  }
  expect(flushed).toEqual([])
  await clock.pass(400)
  expect(flushed).toEqual([16])
  for (let i = 0; i < 40; i++) {
    batcher.add("endless", i, 500)
    await clock.pass(100)
  }
  expect(flushed).toHaveLength(2)
  batcher.add("single", 1, 1)
  expect(flushed.at(-1)).toBe(1)
})

test("each end of a job has its own outcome", () => {
  const known = { id: "1", name: "ork-a", task: null, tasks: null, reason: "None", exitCode: 0, signal: 0 }
  const job = (state: string, more: object = {}) => ({ ...known, state, ...more })
  const outcome = (code: number | null, state: string | null, more: object = {}): string => {
    const { state: end, error } = outcomeOf(code, state === null ? null : job(state, more), 1 << 30)
    return `${end}: ${error ?? "-"}`
  }
  expect(outcome(0, "COMPLETED")).toBe("success: -")
  expect(outcome(0, "NODE_FAIL")).toBe("success: -")
  expect(outcome(3, "FAILED")).toBe("failed: exit code 3")
  expect(outcome(143, null)).toBe("failed: exit code 143 (SIGTERM)")
  expect(outcome(143, "TIMEOUT")).toMatch(/^timeout: stopped by Slurm at the job's time limit/)
  expect(outcome(null, "OUT_OF_MEMORY")).toBe("failed: killed: used more than 1 GiB")
  expect(outcome(null, "NODE_FAIL")).toBe("lost: its node failed")
  expect(outcome(143, "PREEMPTED")).toBe("lost: preempted by a job of higher priority")
  expect(outcome(null, "CANCELLED")).toBe("failed: its job was cancelled from outside of Ork")
  expect(outcome(null, "FAILED", { signal: 9, reason: "JobLaunchFailure" })).toBe(
    "failed: its job was killed by SIGKILL (JobLaunchFailure)",
  )
  expect(outcome(null, null)).toBe("lost: its job disappeared from the queue")
  expect(isPermanent("Batch job submission failed: Invalid partition name specified")).toBe(true)
  expect(isPermanent("Unable to contact slurm controller (connect failure)")).toBe(false)
  expect(mayHaveArrived("Batch job submission failed: Socket timed out on send/recv operation")).toBe(true)
  expect(isPermanent("QOSMaxSubmitJobPerUserLimit; Batch job submission failed: Job violates accounting/QOS policy")).toBe(
    false,
  )
  expect(isPermanent("Batch job submission failed: Job violates accounting/QOS policy (job submit limit, …)")).toBe(false)
  expect(isPermanent("QOSMaxCpuPerJobLimit; Batch job submission failed: Job violates accounting/QOS policy")).toBe(true)
  expect(mayHaveArrived("Invalid account")).toBe(false)
})

test("a function is called by `ork exec`", () => {
  const work = assignment("/w", null, { node: { file: "tasks/load.ts" } })
  expect(runScript(work, "/s")).toContain("  'ork' 'exec' '--file' 'tasks/load.ts' < ")
})

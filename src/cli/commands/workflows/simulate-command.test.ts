import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { type CommandResult, runMain } from "../../testing/command-line.ts"

interface Report {
  statuses: Record<string, number>
  faults: Record<string, number>
  findings: { kind: string; task: string | null; runs: number; seed: number | null; loses_work: boolean; message: string }[]
}

/** Returns a folder with flow.yaml, and cases of it. */
const setup = async (workflow: string, cases?: string) => {
  const cwd = await mkdtemp(join(tmpdir(), "ork-simulate-"))
  onTestFinished(() => rm(cwd, { recursive: true }))
  await writeFile(join(cwd, "flow.yaml"), `name: flow\n${workflow}\n`)
  if (cases !== undefined) await writeFile(join(cwd, "flow.ork-test.yaml"), cases)
  const ork = (...args: string[]): Promise<CommandResult> => runMain(["simulate", "flow.yaml", ...args], { cwd, env: {} })
  const report = async (...args: string[]): Promise<Report & { code: number }> => {
    const { code, stdout } = await ork("--json", ...args)
    return { code, ...(JSON.parse(stdout) as Report) }
  }
  return { ork, report }
}

/** Survives all faults. */
const RETRY = "retry: { max_attempts: 8, base_delay: 10s }"
const KEY = "command: charge --key $ORK_TASK_ID"
const ROBUST = `${KEY}, ${RETRY}`

const TAKES_5M = `cases: { usual: { mocks: { a: { duration: 5m } }, expect: { status: success } } }`

describe("ork simulate", () => {
  it.each([
    ["a task without retries", `tasks: { a: { ${KEY} } }`, "no_retries", "a", true],
    ["retries that an outage outlasts", `tasks: { a: { ${KEY}, retries: 2 } }`, "short_retries", "a", false],
    ["a task that may not run twice", `tasks: { a: { command: charge, ${RETRY} } }`, "runs_twice", "a", false],
    [
      "a request that may not be sent twice",
      `tasks: { a: { executor: http, url: "http://x", method: POST, ${RETRY} } }`,
      "runs_twice",
      "a",
      false,
    ],
    ["a lost worker that fails the run", `tasks: { a: { ${ROBUST}, lost_retries: 0 } }`, "lost_worker", "a", false],
    ["a hook without retries", `tasks: { a: { ${ROBUST} } }\non_exit: [{ ${KEY} }]`, "hook_lost", "on_exit.0", true],
    ["an approval without a timeout", `tasks: { a: { executor: approval } }`, "endless", "a", true],
    [
      "a run that ends before its tasks may",
      `timeout: 30m\ntasks: { a: { ${ROBUST}, timeout: 1h } }`,
      "short_run_timeout",
      null,
      true,
    ],
    ["a task that never runs", `tasks: { a: { ${ROBUST} }, b: { ${ROBUST}, if: "1 > 2" } }`, "never_runs", "b", false],
    [
      "a hook that never fires",
      `tasks: { a: { ${KEY}, continue_on_error: true } }\non_failure: [{ ${ROBUST} }]`,
      "hook_never_fires",
      "on_failure.0",
      false,
    ],
    [
      "a reference to the output of a failed task",
      `tasks:\n  a: { ${KEY} }\n  b: { ${ROBUST}, depends_on: [a], run_when: all_done, env: { N: "\${{ tasks.a.output.n }}" } }`,
      "bad_reference",
      "b",
      false,
    ],
  ])("reports %s", async (_, workflow, kind, task, losesWork) => {
    const { report } = await setup(workflow)
    const { code, findings } = await report("--runs", "30")
    expect(findings.find((finding) => finding.kind === kind)).toMatchObject({ task, loses_work: losesWork })
    const losing = findings.filter(({ loses_work }) => loses_work)
    expect(code).toBe(losing.length === 0 ? 0 : 1)
  })

  it("reports a timeout below four times the usual duration of a case, with lost work only if there are no retries", async () => {
    for (const [retries, losesWork] of [
      ["", true],
      [`, ${RETRY}`, false],
    ] as const) {
      const { report } = await setup(`tasks: { a: { ${KEY}, timeout: 6m${retries} } }`, TAKES_5M)
      const { findings } = await report("--runs", "30")
      expect(findings.find(({ kind }) => kind === "short_timeout")).toMatchObject({ task: "a", loses_work: losesWork })
    }
  })

  it("finds nothing in a workflow that survives every fault", async () => {
    const { ork, report } = await setup(`
timeout: 3d
tasks:
  list: { ${ROBUST} }
  load: { ${ROBUST}, foreach: list.files }
  send: { executor: http, url: "http://x", depends_on: [load], ${RETRY} }
  wait: { executor: sleep, duration: 1h, depends_on: [send] }
  check: { executor: approval, timeout: 1d, depends_on: [wait] }
  file: { executor: wait, path: /none, timeout: 1d }
on_failure: [{ ${ROBUST} }]`)
    const { code, findings, statuses, faults } = await report("--runs", "60")
    expect([code, findings]).toEqual([0, []])
    expect(statuses).toMatchObject({ running: 0 })
    expect(Object.entries(faults).filter(([, count]) => count === 0)).toEqual([])
    expect((await ork("--runs", "1")).stdout).toContain("0 findings, no work is lost\n")
  })

  it("gives the same report for the same seeds, and shows the run of one", async () => {
    const { ork, report } = await setup(`
tasks:
  a: { command: x }
  b: { command: x, foreach: a.list, retry: { max_attempts: 3, jitter: true }, depends_on: [a] }
on_exit: [{ command: x }]`)
    const first = await report("--runs", "40")
    expect(await report("--runs", "40")).toEqual(first)
    for (const { kind, task, seed, loses_work } of first.findings) {
      const { findings } = await report("--seed", String(seed))
      expect(findings).toContainEqual(expect.objectContaining({ kind, task, loses_work }))
    }
    const { seed } = first.findings.find(({ kind }) => kind === "no_retries")!
    const { stdout, code } = await ork("--seed", String(seed))
    expect(code).toBe(1)
    expect(stdout).toMatch(/^flow\.yaml, seed \d+:\n {2}0\.0s {2}a: attempt 1 starts\n/)
    expect(stdout).toContain("✗ one failed attempt failed the run: the task has no retries (no_retries)")
    expect(stdout).toContain("    to change: retries: 3\n")
  })

  it("plays a run in the same way alone and after others", async () => {
    const { report } = await setup(`tasks: { a: { command: x, retries: 2 }, b: { command: x, depends_on: [a] } }`)
    const { findings } = await report("--seed", "40", "--runs", "20")
    for (const { kind, task, seed } of findings) {
      const alone = await report("--seed", String(seed), "--runs", "1")
      expect(alone.findings).toContainEqual(expect.objectContaining({ kind, task, seed }))
    }
  })

  it("leaves out what the user accepts", async () => {
    const { report } = await setup(`tasks: { a: { ${KEY} }, b: { ${KEY} } }`)
    expect((await report("--runs", "40", "--ignore", "no_retries:a")).findings).toMatchObject([{ task: "b" }])
    expect(await report("--runs", "40", "--ignore", "no_retries")).toMatchObject({ code: 0, findings: [] })
  })

  it.each([
    ["an unknown kind", "tasks: { a: { command: x } }", ["--ignore", "no_retry"], "use one of no_retries, "],
    [
      "a missing param",
      "params: { day: { type: date, required: true } }\ntasks: { a: { command: x } }",
      [],
      "params.day: is required",
    ],
    ["an unknown case", "tasks: { a: { command: x } }", ["--case", "x"], "there is no file flow.ork-test.yaml"],
    ["a number of runs that is none", "tasks: { a: { command: x } }", ["--runs", "0"], '--runs: "0" is not a whole number'],
    [
      "a workflow that fails without faults",
      'tasks:\n  a: { command: x }\n  b: { command: x, if: "tasks.a.output.list[9] == 1", depends_on: [a] }',
      [],
      "flow ends as failed without any fault: b: ",
    ],
  ])("rejects %s, with exit code 2", async (_, workflow, args, message) => {
    const { ork } = await setup(workflow)
    const { code, stderr } = await ork(...args)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })
})

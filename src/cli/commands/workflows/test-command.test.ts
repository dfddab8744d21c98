import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { readCases } from "../../cases/read-cases.ts"
import { runCase } from "../../cases/run-case.ts"
import { type CommandResult, runMain } from "../../testing/command-line.ts"

const WORKFLOW = `
name: etl
params: { day: { type: date, required: true } }
tasks:
  extract: { command: "extract \${{ params.day }}", env: { TOKEN: { secret: TOKEN } }, labels: [gpu] }
  load:
    executor: load
    depends_on: [extract]
    foreach: extract.files
    retry: { max_attempts: 3, base_delay: 1m }
    timeout: 10m
  child: { executor: workflow, workflow: other, depends_on: [load] }
`

/** Returns a folder with etl.yaml and the given cases of it. */
const setup = async (cases: string, workflow = WORKFLOW) => {
  const cwd = await mkdtemp(join(tmpdir(), "ork-cases-"))
  onTestFinished(() => rm(cwd, { recursive: true }))
  await writeFile(join(cwd, "etl.yaml"), workflow)
  await writeFile(join(cwd, "etl.ork-test.yaml"), cases)
  const ork = (...args: string[]): Promise<CommandResult> => runMain(["test", ...args], { cwd, env: {} })
  return { cwd, ork }
}

const PASSING = `
cases:
  loads two files:
    params: { day: 2026-01-31 }
    mocks:
      extract: { output: { files: [a, b] } }
      load[1]: [{ error: busy }, { output: 2 }]
      load: { output: 1 }
    expect:
      status: success
      tasks: { "load[1]": success, child: success }
      order: [extract, "load[0]", child]
      attempts: { load: 3, "load[1]": 2 }
      outputs: { load: [1, 2] }
      duration: 1m
`

describe("ork test", () => {
  it("runs cases with mocks in virtual time", async () => {
    const { ork } = await setup(PASSING)
    expect(await ork()).toEqual({
      code: 0,
      stdout: "✓ etl.ork-test.yaml: loads two files\n1 case, all passed\n",
      stderr: "",
    })
  })

  it("shows each difference with its line, and exits with 1", async () => {
    const { ork } = await setup(`
cases:
  differs:
    params: { day: 2026-01-31 }
    mocks:
      extract: { output: { files: [a], rows: { old: 1 } } }
      load: { duration: 11m }
    expect:
      status: success
      tasks:
        load: success
      order: [child, extract]
      attempts: { load: 1 }
      outputs:
        extract: { files: [a], rows: { new: 1 } }
      errors: { "load[0]": disk }
      duration: 1h
`)
    const { code, stdout } = await ork()
    expect(code).toBe(1)
    expect(stdout).toBe(`✗ etl.ork-test.yaml: differs
    etl.ork-test.yaml:9: status: expected success, but was failed (task load failed)
    etl.ork-test.yaml:11: tasks.load: expected success, but was failed (1 of 1 instances failed)
    etl.ork-test.yaml:12: order: the order differs:
          [
        -   "child",
            "extract"
          ]
    etl.ork-test.yaml:13: attempts.load: expected 1, but was 3
    etl.ork-test.yaml:15: outputs.extract: the output differs:
          {
            "files": [
              "a"
            ],
            "rows": {
        -     "new": 1
        +     "old": 1
            }
          }
    etl.ork-test.yaml:16: errors.load[0]: expected an error with "disk", but was timed out after 10m
    etl.ork-test.yaml:17: duration: expected 1h, but was 33m
1 case, 1 failed
`)
  })

  it("runs the cases whose file or name contains a text, and writes JSON and JUnit", async () => {
    const { ork, cwd } = await setup(
      `${PASSING}  fails <&>:\n    params: { day: 2026-01-31 }\n    expect: { status: success }\n`,
    )
    expect((await ork("--filter", "two files")).stdout).toContain("1 case, all passed")
    expect(await ork("--filter", "none")).toMatchObject({ code: 2, stderr: 'ork: no case contains "none"\n' })
    const { code, stdout } = await ork("--json", "--junit", "report.xml")
    expect([code, JSON.parse(stdout)]).toMatchObject([
      1,
      [
        { case: "loads two files", passed: true, line: 3, differences: [] },
        { case: "fails <&>", passed: false, differences: [{ path: "status", line: 18 }] },
      ],
    ])
    expect(await ork("--junit", "none/report.xml")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--junit: the report cannot be written: ENOENT") as string,
    })
    const xml = await readFile(join(cwd, "report.xml"), "utf8")
    expect(xml).toContain('<testsuite name="ork test" tests="2" failures="1">')
    expect(xml).toContain('name="fails &lt;&amp;&gt;"')
  })

  it("leaves cases out of the definitions of a folder", async () => {
    const { cwd } = await setup(PASSING)
    const { code, stdout } = await runMain(["validate", "."], { cwd, env: {} })
    expect([code, stdout]).toEqual([0, "etl.yaml: etl is valid, 3 tasks\n"])
  })

  it("finds files in folders, but not in node_modules", async () => {
    const { ork, cwd } = await setup(PASSING)
    await mkdir(join(cwd, "node_modules/x"), { recursive: true })
    await writeFile(join(cwd, "node_modules/x/bad.ork-test.yaml"), "nothing")
    expect((await ork(".")).code).toBe(0)
    expect(await ork("none")).toMatchObject({ code: 2, stderr: "ork: none: there is no such file or folder\n" })
    expect((await ork("etl.yaml")).stderr).toContain("ends in .ork-test.yaml")
  })

  it.each([
    [
      "an unknown task",
      "cases: { x: { mocks: { lod: {} }, expect: {} } }",
      ':1:24: cases.x.mocks.lod: there is no task lod in etl (did you mean "load"?)',
    ],
    ["an unknown field", "cases:\n  x:\n    expect: { state: failed }", ':3:15: cases.x.expect.state: unknown field "state"'],
    ["a bad status", "cases: { x: { expect: { tasks: { load: done } } } }", "must be one of pending"],
    ["a bad duration", "cases: { x: { limit: soon, expect: {} } }", ":1:22: cases.x.limit: must be a duration"],
    ["a missing workflow", "workflow: none.yaml\ncases: {}", ":1:11: workflow: there is no file none.yaml beside the cases"],
    ["missing params", "cases:\n  x: { expect: {} }", "cases.x.params.day: is required (date)"],
    [
      "unknown params, before any case runs",
      "cases:\n  y: { params: { day: 2026-01-31 }, expect: {} }\n  x: { params: { dya: 2026-01-31 }, expect: {} }",
      ':3:18: cases.x.params.dya: is not a param of the workflow; it has day (did you mean "day"?)',
    ],
    [
      "an instance of a task in no fan-out",
      "cases:\n  x:\n    mocks:\n      extract[0]: {}\n    expect: {}",
      ":4:7: cases.x.mocks.extract[0]: extract has no instances: it is in no fan-out",
    ],
    [
      "an instance with too many indexes",
      "cases:\n  x:\n    expect:\n      attempts: { 'load[0][1]': 1 }",
      "there is no instance load[0][1]; an instance of this task is load[0]",
    ],
    [
      "a mock that succeeds and fails",
      "cases: { x: { mocks: { load: [{ output: 1, error: x }] }, expect: {} } }",
      ":1:24: cases.x.mocks.load: must have an output or an error, not both",
    ],
    [
      "a mock that is fatal without an error",
      "cases: { x: { mocks: { load: { fatal: true } }, expect: {} } }",
      "cases.x.mocks.load: must have an error, because it is fatal",
    ],
  ])("names the line of %s, and exits with 2", async (_, cases, message) => {
    const { ork } = await setup(cases)
    const { code, stderr } = await ork()
    expect(code).toBe(2)
    expect(stderr).toContain(`etl.ork-test.yaml${message.startsWith(":") ? message : ""}`)
    expect(stderr).toContain(message)
  })

  it("plays an hour of retries in less than 50 ms", async () => {
    const { cwd } = await setup(
      "cases: { hour: { mocks: { a: { error: no } }, expect: {} }, moment: { expect: {} } }",
      "name: etl\ntasks: { a: { command: x, retry: { max_attempts: 61, backoff: fixed, base_delay: 1m } } }\n",
    )
    const file = await readCases(cwd, "etl.ork-test.yaml")
    const [hour, moment] = [[] as number[], [] as number[]]
    for (let i = 0; i < 20; i++) {
      for (const [j, used] of [hour, moment].entries()) {
        const before = process.threadCpuUsage()
        const { durationMs, tasks } = await runCase(file, file.cases[j]!)
        const { user, system } = process.threadCpuUsage(before)
        used.push((user + system) / 1000)
        expect([durationMs, tasks.get("a")?.attempts]).toEqual(j === 0 ? [3_600_000, 61] : [0, 1])
      }
    }
    // The time of the processor, which other work on this machine does not change, beside that of opening an engine.
    expect(Math.min(...hour) - Math.min(...moment)).toBeLessThan(50)
  })
})

// Tasks that wait until a condition holds (`executor: wait`).

import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { BLOCKED_REQUEST } from "../../src/core/model/ports.ts"
import type { JsonObject } from "../../src/core/values/json.ts"
import { parsePolicy } from "../../src/core/settings/policy.ts"
import { BROKEN_CONDITION, type ConditionProbes, type EngineOptions } from "../../src/engine/ports.ts"
import { explain } from "../../src/engine/services/explain.ts"
import { Files } from "../../src/executors/wait/files.ts"
import { type Script, setup as setupEngine } from "./setup.ts"

const HOUR = 3_600_000

class Broken extends Error {
  override readonly name = BROKEN_CONDITION
}

/**
 * Finds real files; other conditions are scripted. Looks for a single file at once, since the virtual clock does not wait for the
 * system.
 */
const conditions = (scripted: Partial<ConditionProbes> = {}): ConditionProbes => ({
  paths: (path) => {
    if (path.startsWith("/") && !path.includes("*")) return Promise.resolve(existsSync(path) ? [path] : [])
    return new Files({ dataDir: "/nowhere/data", openObjects: () => Promise.reject(new Error("no bucket")) }).find(path)
  },
  respond: () => Promise.reject(new Error("no response: connect ECONNREFUSED")),
  firstRow: () => Promise.resolve(null),
  stop: () => Promise.resolve(),
  ...scripted,
})

const setup = (
  scripted: Partial<ConditionProbes> = {},
  options: Partial<EngineOptions> = {},
  scripts: Record<string, Script> = {},
) => setupEngine(scripts, { conditions: conditions(scripted), ...options })

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-wait-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

describe("a task that waits for a file", () => {
  it("succeeds at the check after the file appears, and downstream tasks read its path", async () => {
    const file = join(temporaryFolder(), "in.csv")
    const fixture = await setup()
    const runId = await fixture.trigger(
      `
name: w
params: { file: string }
tasks:
  a: { executor: wait, path: "\${{ params.file }}", every: 10s }
  b: { command: load, depends_on: [a], input: { file: "\${{ tasks.a.output.path }}" } }`,
      { file },
    )
    await fixture.pass(25_000)
    expect(await fixture.statuses(runId)).toEqual({ a: "running", b: "pending" })
    writeFileSync(file, "")
    expect((await fixture.ended(runId)).status).toBe("success")
    const { attempt, output, startedAt, finishedAt } = await fixture.task(runId, "a")
    expect({ attempt, output }).toEqual({ attempt: 1, output: { inline: { path: file, paths: [file] } } })
    expect(Date.parse(finishedAt!) - Date.parse(startedAt!)).toBeGreaterThanOrEqual(30_000)
    expect(fixture.inputs("b")).toMatchObject([{ file }])
  })

  it("uses no slot, and causes neither writes nor turns while nothing changes", async () => {
    let turns = 0
    let changes = 0
    const observer = { turn: (batch: { changes: number }) => void (turns++, (changes += batch.changes)) }
    const fixture = await setup({}, { concurrency: 1, observer })
    const tasks = Array.from({ length: 20 }, (_, i) => `t${i}: { executor: wait, path: /nowhere/${i}.csv, every: 10s }`)
    const runId = await fixture.trigger(`name: w\nconcurrency: 1\ntasks: { ${tasks.join(", ")}, work: { command: x } }`)
    await fixture.pass(15_000)
    expect(await fixture.statuses(runId)).toMatchObject({ t0: "running", t19: "running", work: "success" })
    expect(changes).toBeGreaterThan(0)
    // The first checks read the real disk, and may write what they saw a moment later.
    do {
      changes = 0
      await fixture.pass(15_000)
    } while (changes > 0)
    turns = 0
    await fixture.pass(HOUR)
    expect({ turns, changes }).toEqual({ turns: 0, changes: 0 })
  })

  it("matches patterns, and returns all matches", async () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, "b.csv"), "")
    writeFileSync(join(folder, "a.csv"), "")
    const fixture = await setup()
    const runId = await fixture.trigger(`name: w\ntasks: { a: { executor: wait, path: "${folder}/*.csv" } }`)
    await fixture.ended(runId)
    const paths = ["a.csv", "b.csv"].map((name) => join(folder, name))
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: { path: paths[0], paths } })
  })

  it("does not see the data folder of Ork, also not through a link", async () => {
    const link = join(temporaryFolder(), "link")
    const fixture = await setup()
    symlinkSync(fixture.folder, link)
    writeFileSync(join(fixture.folder, "secret"), "")
    const runId = await fixture.trigger(`name: w\ntasks: { a: { executor: wait, path: ${link}/secret } }`)
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toContain("inside the data folder of Ork")
  })

  it("matches patterns relative to the folder of its run, but no other files of the data folder", async () => {
    const make: Script = ({ workingDir }) => {
      for (const folder of [workingDir, join(workingDir, "../other run")]) {
        mkdirSync(join(folder, "out dir"), { recursive: true })
        writeFileSync(join(folder, "out dir", "ä b.csv"), "")
      }
      return null
    }
    const dataDir = temporaryFolder()
    const files = new Files({ dataDir, openObjects: () => Promise.reject(new Error("no bucket")) })
    const fixture = await setup({ paths: (path, ownFolder) => files.find(path, ownFolder) }, { dataDir }, { make })
    const runId = await fixture.trigger(
      `
name: w
tasks:
  make: { command: x }
  own: { executor: wait, depends_on: [make], path: "**/*.csv", timeout: 1m }
  other: { executor: wait, depends_on: [make], path: "../other run/**/*.csv", timeout: 1m }`,
      {},
      { workingDir: null },
    )
    await fixture.ended(runId)
    const path = join(dataDir, "work", runId, "out dir/ä b.csv")
    expect((await fixture.task(runId, "own")).output).toEqual({ inline: { path, paths: [path] } })
    expect((await fixture.task(runId, "other")).error).toBe("timed out after 1m: no match")
  })

  it("ends at its timeout with what the last check saw, and is retried like any failure", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(
      "name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv, timeout: 2h, retries: 1 } }",
    )
    await fixture.pass(2 * HOUR + 60_000)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "running", attempt: 2 })
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "failed", error: "timed out after 2h: it does not exist" })
  })

  it("has a timeout of one day unless one is set", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv } }")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe("timed out after 1d: it does not exist")
  })

  it("with soft_fail is skipped at its timeout, and downstream tasks run", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(`
name: w
tasks:
  a: { executor: wait, path: /nowhere/in.csv, timeout: 1m, soft_fail: true, retries: 3 }
  b: { command: x, depends_on: [a] }`)
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(await fixture.statuses(runId)).toEqual({ a: "skipped", b: "success" })
    expect(await fixture.task(runId, "a")).toMatchObject({ attempt: 1, error: "timed out after 1m: it does not exist" })
  })

  it("is explained by what it waits for, its next check and what the last check saw", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv, every: 1m } }")
    await fixture.pass(1000)
    const [sentence] = (await explain({ store: fixture.store, isAlive: () => true }, runId)).map((each) => each.sentence)
    expect(sentence).toMatch(
      /^a waits for \/nowhere\/in\.csv \(checked every 1m, next at \d{4}-[^)]*Z\); the last check: it does not exist\.$/,
    )
  })

  it("is cancelled with its run", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv, every: 1h } }")
    await fixture.pass(1000)
    await fixture.engine.cancel(runId)
    await fixture.pass(1000)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "cancelled" })
    expect((await fixture.ended(runId)).status).toBe("cancelled")
  })

  it("is cancelled when its group is overdue", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(
      "name: w\ntasks: { g: { timeout: 1m, tasks: { a: { executor: wait, path: /nowhere/in.csv, every: 1h } } } }",
    )
    await fixture.pass(61_000)
    expect(await fixture.task(runId, "g.a")).toMatchObject({ status: "cancelled" })
    expect((await fixture.ended(runId)).status).toBe("failed")
  })

  it("is no longer checked soon after a user has finished it by hand", async () => {
    let checks = 0
    const fixture = await setup({ paths: async () => (checks++, []) })
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv, every: 10s } }")
    await fixture.pass(1000)
    await fixture.store.overrideOutcome({ runId, name: "a", path: "", status: "success", reason: "by hand" })
    fixture.engine.wake()
    await fixture.ended(runId)
    await fixture.pass(120_000)
    const before = checks
    await fixture.pass(HOUR)
    expect(checks).toBe(before)
  })

  it("is left to other engines by one that checks no conditions", async () => {
    const fixture = await setupEngine()
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv, timeout: 10s } }")
    await fixture.pass(5000)
    expect((await fixture.task(runId, "a")).status).toBe("running")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe("timed out after 10s: no server has checked it yet")
  })

  it("is released when the engine stops, and due again for the next one", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, path: /nowhere/in.csv } }")
    await fixture.pass(1000)
    expect((await fixture.task(runId, "a")).resumeAt).toBeNull()
    await fixture.until(fixture.engine.stop())
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "running", attempt: 1 })
    expect((await fixture.task(runId, "a")).resumeAt).not.toBeNull()
  })
})

describe("a task that waits for a URL", () => {
  const response = (status: number, body: JsonObject) => ({ response: { status, headers: {}, body }, expected: status === 200 })

  it("waits until the status is expected and its expression holds", async () => {
    const replies = [response(503, {}), response(200, { day: "2000-01-01" }), response(200, { day: "2026-02-01" })]
    const fixture = await setup({ respond: async () => replies.shift()! })
    const runId = await fixture.trigger(
      'name: w\nparams: { day: "2026-02-01" }\ntasks: { a: { executor: wait, url: "https://x.test/?k=1", until: response.body.day == params.day, every: 10s } }',
    )
    await fixture.pass(1000)
    expect((await fixture.task(runId, "a")).progress?.details).toBe("the status 503")
    await fixture.pass(10_000)
    expect((await fixture.task(runId, "a")).progress?.details).toBe("the status 200, and until is false")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).output).toMatchObject({ inline: { status: 200, body: { day: "2026-02-01" } } })
  })

  it("goes on while the service does not respond, and fails at once when its address is broken or blocked", async () => {
    const blocked = new Error("10.0.0.1 is private")
    blocked.name = BLOCKED_REQUEST
    const failures: { [url: string]: Error } = {
      "https://bad.test": new Broken("getaddrinfo ENOTFOUND bad.test"),
      "https://in.test": blocked,
    }
    const fixture = await setup({
      respond: ({ fields }) =>
        Promise.reject(failures[fields["url"] as string] ?? new Error("no response: connect ECONNREFUSED")),
    })
    const runId = await fixture.trigger(
      "name: w\ntasks: { bad: { executor: wait, url: https://bad.test }, inner: { executor: wait, url: https://in.test }, off: { executor: wait, url: https://off.test, timeout: 1h } }",
    )
    await fixture.pass(1000)
    expect(await fixture.statuses(runId)).toEqual({ bad: "failed", inner: "failed", off: "running" })
    expect((await fixture.task(runId, "bad")).error).toBe("getaddrinfo ENOTFOUND bad.test")
    expect((await fixture.task(runId, "inner")).error).toBe("10.0.0.1 is private")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "off")).error).toBe("timed out after 1h: no response: connect ECONNREFUSED")
  })

  it("sends its secrets, and masks them in what it shows", async () => {
    const sent: unknown[] = []
    const fixture = await setup({
      respond: async ({ fields }) => {
        sent.push(fields["headers"])
        return response(200, { echo: "Bearer s3cret" })
      },
    })
    const runId = await fixture.trigger(
      'name: w\ntasks: { a: { executor: wait, url: https://x.test, headers: { authorization: { secret: API_TOKEN, prefix: "Bearer " } } } }',
    )
    await fixture.ended(runId)
    expect(sent).toEqual([{ authorization: "Bearer s3cret" }])
    expect(JSON.stringify(await fixture.task(runId, "a"))).not.toContain("s3cret")
  })

  it("fails when the policy does not allow its host", async () => {
    const fixture = await setup({}, { policy: parsePolicy({ hosts: ["*.test"] })! })
    const runId = await fixture.trigger(
      'name: w\nparams: { url: "https://evil.org" }\ntasks: { a: { executor: wait, url: "${{ params.url }}" } }',
    )
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toContain("does not allow the host evil.org")
  })
})

describe("a task that waits for a query", () => {
  it("passes values as parameters, and succeeds when the first column is true", async () => {
    const rows: (JsonObject | null)[] = [null, { ready: false }, { ready: true, count: "3" }]
    const queries: unknown[] = []
    const fixture = await setup({
      firstRow: async ({ connection, text, values }) => {
        queries.push({ connection, text, values })
        return rows.shift()!
      },
    })
    const runId = await fixture.trigger(
      `name: w\nparams: { day: "x' or true --" }\ntasks: { a: { executor: wait, connection: dwh, every: 1s, sql: "select count(*) > 0 as ready from t where day = \${{ params.day }} and n > \${{ 1 + 1 }}" } }`,
    )
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).output).toEqual({ inline: { ready: true, count: "3" } })
    expect(queries[0]).toEqual({
      connection: "dwh",
      text: "select count(*) > 0 as ready from t where day = $1 and n > $2",
      values: ["x' or true --", "2"],
    })
    expect(queries).toHaveLength(3)
  })

  it("fails with the database's message when the query is broken, and when its first column is no boolean", async () => {
    const fixture = await setup({
      firstRow: ({ text }) =>
        text === "selec" ? Promise.reject(new Broken('syntax error at or near "selec"')) : Promise.resolve({ count: "3" }),
    })
    const runId = await fixture.trigger(
      "name: w\ntasks: { a: { executor: wait, sql: selec }, b: { executor: wait, sql: select count(*) from t } }",
    )
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).error).toBe('syntax error at or near "selec"')
    expect((await fixture.task(runId, "b")).error).toContain('count, the first column of the query, is "3"')
  })
})

describe("a task that waits for a workflow", () => {
  it("succeeds when the latest run of that workflow has succeeded", async () => {
    let fails = true
    const fixture = await setup({}, {}, { load: () => (fails ? Promise.reject(new Error("disk full")) : null) })
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, workflow: extract, every: 10s } }")
    await fixture.pass(1000)
    expect((await fixture.task(runId, "a")).progress?.details).toBe("there is no run of extract")
    const extract = "name: extract\ntasks: { load: { command: x } }"
    const first = await fixture.trigger(extract)
    await fixture.pass(15_000)
    expect((await fixture.task(runId, "a")).progress?.details).toBe(`run ${first} is failed`)
    fails = false
    const second = await fixture.trigger(extract)
    expect((await fixture.ended(runId)).status).toBe("success")
    expect((await fixture.task(runId, "a")).output).toMatchObject({ inline: { run_id: second } })
  })

  it("with a logical date waits for the run of that date", async () => {
    const fixture = await setup()
    const { version } = await fixture.deploy("name: extract\ntasks: { load: { command: x } }")
    const start = async (logicalDate: string) =>
      (
        await fixture.engine.trigger({
          workflowId: version.workflowId,
          versionId: version.versionId,
          trigger: "manual",
          params: {},
          priority: null,
          logicalDate,
          idempotencyKey: null,
          workingDir: fixture.folder,
        })
      ).run.id
    const runId = await fixture.trigger(
      "name: w\ntasks: { a: { executor: wait, workflow: extract, logical_date: 2026-02-01, every: 10s } }",
    )
    await start("2026-02-02T00:00:00.000Z")
    await fixture.pass(15_000)
    expect((await fixture.task(runId, "a")).progress?.details).toContain("with the logical date 2026-02-01T00:00:00.000Z")
    const wanted = await start("2026-02-01T00:00:00.000Z")
    await start("2026-02-03T00:00:00.000Z")
    await fixture.ended(runId)
    expect((await fixture.task(runId, "a")).output).toMatchObject({ inline: { run_id: wanted } })
  })
})

describe("a task that waits for a command", () => {
  it("repeats the command under one attempt until it succeeds, and frees its slot in between", async () => {
    let checks = 0
    const script: Script = () => {
      checks += 1
      if (checks < 4) throw new Error(`exit code 1: not yet (${checks})`)
      return { rows: 7 }
    }
    const fixture = await setup({}, { concurrency: 1 }, { a: script })
    const runId = await fixture.trigger(
      "name: w\nconcurrency: 1\ntasks: { a: { executor: wait, command: ./check.sh, every: 30s }, b: { command: x } }",
    )
    await fixture.pass(45_000)
    expect(checks).toBe(2)
    const waiting = await fixture.task(runId, "a")
    expect(waiting).toMatchObject({
      status: "running",
      attempt: 1,
      waitingOn: { kind: "condition", last: "exit code 1: not yet (2)" },
    })
    expect((await fixture.task(runId, "b")).status).toBe("success")
    expect((await fixture.ended(runId)).status).toBe("success")
    const done = await fixture.task(runId, "a")
    expect(done).toMatchObject({ attempt: 1, output: { inline: { rows: 7 } }, startedAt: waiting.startedAt })
    expect(await fixture.store.listAttempts(done.row)).toEqual([])
    expect(Date.parse(done.finishedAt!) - Date.parse(done.startedAt!)).toBeGreaterThanOrEqual(90_000)
  })

  it("ends at its timeout with what the last check said", async () => {
    const fixture = await setup({}, {}, { a: () => Promise.reject(new Error("exit code 1: not yet")) })
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, command: x, every: 50s, timeout: 2m } }")
    await fixture.ended(runId)
    const { startedAt, finishedAt, error } = await fixture.task(runId, "a")
    expect(error).toBe("timed out after 2m: exit code 1: not yet")
    expect(Date.parse(finishedAt!) - Date.parse(startedAt!)).toBeLessThan(125_000)
  })

  it("that does not exist fails at once", async () => {
    const launch = async () =>
      ({ state: "failed", startedAt: 0, finishedAt: 0, exitCode: 127, error: "exit code 127: not found" }) as const
    const fixture = await setup({}, { executors: new Map([["process", { name: "process", launch }]]) })
    const runId = await fixture.trigger("name: w\ntasks: { a: { executor: wait, command: nonsense } }")
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "failed", error: "exit code 127: not found" })
  })

  it("is skipped for an exit code of skip_on, and cancelled with its run", async () => {
    const fixture = await setup(
      {},
      {},
      { a: () => Promise.reject(new Error("no data today")), b: () => Promise.reject(new Error("not yet")) },
    )
    const runId = await fixture.trigger(
      "name: w\ntasks: { a: { executor: wait, command: x, skip_on: [no data] }, b: { executor: wait, command: x } }",
    )
    await fixture.pass(1000)
    expect(await fixture.statuses(runId)).toEqual({ a: "skipped", b: "running" })
    await fixture.engine.cancel(runId)
    expect((await fixture.ended(runId)).status).toBe("cancelled")
  })
})

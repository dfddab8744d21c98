import { mkdirSync, mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import { PathTriggers } from "../../src/engine/services/path-triggers.ts"
import { type Match, MatchFinder } from "../../src/objects/matches/matches.ts"
import { MemoryObjectStore } from "../../src/objects/testing/memory.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import { setup as setupEngine } from "./setup.ts"

const SECOND = 1000

/** `files`: what the file system contains, by path; the value is the instant of the last change. */
const setup = async () => {
  const fixture = await setupEngine()
  const { store, clock, engine, folder } = fixture
  const files = new Map<string, number>()
  const problems: string[] = []
  let looks = 0
  let failure: string | null = null
  let started = 0
  const log = (fields: object): void => void problems.push(JSON.stringify(fields))
  async function* find(pattern: string, { signal }: { signal?: AbortSignal } = {}): AsyncGenerator<Match> {
    looks += 1
    if (pattern.startsWith("/endless"))
      await new Promise((_, reject) => signal!.addEventListener("abort", () => reject(new Error("stopped"))))
    if (failure !== null) throw new Error(failure)
    for (const [path, changedAt] of files)
      yield { path, version: String(changedAt), changedAt, complete: path.startsWith("s3:") }
  }
  return {
    ...fixture,
    problems,
    looks: () => looks,
    fail: (message: string | null) => void (failure = message),
    write: (path: string) => void files.set(path, clock.now()),
    files,
    start: (): PathTriggers => {
      const triggers = new PathTriggers({
        store: {
          ...store,
          // Runs share an existing folder: creating one takes real time, for which the virtual clock does not wait.
          recordFiles: (watched, files) =>
            store.recordFiles(
              watched,
              files.map((file) =>
                "run" in file.outcome ? { ...file, outcome: { run: { ...file.outcome.run, workingDir: folder } } } : file,
              ),
            ),
        },
        matches: { find },
        evaluator: inlineEvaluator,
        clock,
        random: seededRandom(++started + 100),
        log: { info: () => {}, warn: log, error: log },
        wake: () => engine.wake(),
      })
      triggers.start()
      onTestFinished(() => fixture.until(triggers.stop()))
      return triggers
    },
    paths: async () =>
      (await store.listRuns({ workflow: "load", limit: 1000 })).map(({ params }) => params["file"]).toReversed(),
  }
}

const LOAD =
  "name: load\nparams: { file: { type: string, required: true } }\n" +
  'triggers: { path: "/in/*", every: 20s, params: { file: "${{ run.cause.path }}" } }\ntasks: { t: { command: x } }'

describe("a trigger on a path", () => {
  it("creates one run per new file, and again when the file is written again", async () => {
    const fixture = await setup()
    fixture.write("/in/old")
    await fixture.pass(60 * SECOND)
    await fixture.deploy(LOAD)
    fixture.start()
    await fixture.pass(5 * SECOND)
    fixture.write("/in/a")
    fixture.write("/in/b")
    await fixture.pass(60 * SECOND)
    expect(await fixture.paths()).toEqual(["/in/a", "/in/b"])
    fixture.write("/in/old")
    fixture.files.delete("/in/a")
    await fixture.pass(60 * SECOND)
    expect(await fixture.paths()).toEqual(["/in/a", "/in/b", "/in/old"])
    expect(await fixture.store.listRuns({ workflow: "load", limit: 1 })).toMatchObject([
      { trigger: "path", cause: { path: "/in/old" }, logicalDate: null, status: "success" },
    ])
    expect(fixture.looks()).toBeLessThan(10)
  })

  it("takes a local file when it has not changed for 10 s, and an object at once", async () => {
    const fixture = await setup()
    await fixture.deploy(LOAD)
    fixture.start()
    for (let i = 0; i < 10; i++) {
      fixture.write("/in/growing")
      await fixture.pass(5 * SECOND)
    }
    expect(await fixture.paths()).toEqual([])
    fixture.write("s3://bucket/in/a")
    await fixture.pass(21 * SECOND)
    expect(await fixture.paths()).toEqual(["/in/growing", "s3://bucket/in/a"])
  })

  it("creates one run per file with several servers and after restarts", async () => {
    const fixture = await setup()
    await fixture.deploy(LOAD)
    const servers = [fixture.start(), fixture.start()]
    fixture.write("/in/a")
    await fixture.pass(60 * SECOND)
    for (const server of servers) await fixture.until(server.stop())
    fixture.write("/in/b")
    await fixture.pass(60 * SECOND)
    fixture.start()
    await fixture.pass(60 * SECOND)
    expect(await fixture.paths()).toEqual(["/in/a", "/in/b"])
  })

  it("is not delayed by a look of another trigger that does not end, which the stop of the server ends", async () => {
    const fixture = await setup()
    await fixture.deploy('name: slow\ntriggers: { path: "/endless/*", every: 20s }\ntasks: { t: { command: x } }')
    await fixture.deploy(LOAD)
    const service = fixture.start()
    await fixture.pass(60 * SECOND)
    fixture.write("/in/a")
    await fixture.pass(60 * SECOND)
    expect(await fixture.paths()).toEqual(["/in/a"])
    await fixture.until(service.stop())
    expect(fixture.problems).toEqual([])
  })

  it("takes the files of a pause when it resumes", async () => {
    const fixture = await setup()
    await fixture.deploy(LOAD)
    const service = fixture.start()
    const pause = (paused: boolean) => fixture.store.setWorkflowPaused({ name: "load", paused, nextAt: [] })
    await pause(true)
    fixture.write("/in/a")
    await fixture.pass(60 * SECOND)
    expect(await fixture.paths()).toEqual([])
    await pause(false)
    service.wake()
    await fixture.pass(30 * SECOND)
    expect(await fixture.paths()).toEqual(["/in/a"])
  })

  it("shows why it cannot look until it can", async () => {
    const fixture = await setup()
    await fixture.deploy(LOAD)
    fixture.start()
    fixture.fail("EACCES: permission denied")
    await fixture.pass(30 * SECOND)
    const [shown] = await fixture.store.listTriggers("load")
    expect(shown!.problem).toBe("could not look for /in/*: EACCES: permission denied")
    expect(fixture.problems.length).toBeGreaterThan(0)
    fixture.fail(null)
    await fixture.pass(30 * SECOND)
    expect((await fixture.store.listTriggers("load"))[0]!.problem).toBeNull()
  })
})

describe("files and objects that fit a pattern", () => {
  const found = async (finder: MatchFinder, pattern: string): Promise<Match[]> =>
    (await Array.fromAsync(finder.find(pattern))).toSorted((a, b) => (a.path < b.path ? -1 : 1))

  it("are files, not folders, hidden files or files of the server", async () => {
    const folder = mkdtempSync(join(tmpdir(), "ork-matches-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    for (const name of ["in/deep", "in/x.csv", "data"]) mkdirSync(join(folder, name), { recursive: true })
    for (const name of ["in/a.csv", "in/.b.csv", "in/c.txt", "in/deep/d.csv", "data/e.csv"])
      writeFileSync(join(folder, name), name)
    const finder = new MatchFinder({ openObjects: () => Promise.reject(new Error("no store")), dataDir: join(folder, "data") })
    const names = async (pattern: string) =>
      (await found(finder, `${folder}/${pattern}`)).map(({ path }) => path.slice(folder.length + 1))
    expect(await names("in/*.csv")).toEqual(["in/a.csv"])
    expect(await names("**/*.csv")).toEqual(["in/a.csv", "in/deep/d.csv"])
    expect(await names("in/c.txt")).toEqual(["in/c.txt"])
    expect(await names("none/*")).toEqual([])
  })

  it("change their version when they are written, and their time when they are moved there", async () => {
    const folder = mkdtempSync(join(tmpdir(), "ork-matches-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const finder = new MatchFinder({ openObjects: () => Promise.reject(new Error("no store")), dataDir: "/none" })
    writeFileSync(join(folder, "part"), "one")
    utimesSync(join(folder, "part"), new Date(0), new Date(0))
    renameSync(join(folder, "part"), join(folder, "a.csv"))
    const [first] = await found(finder, `${folder}/*.csv`)
    expect(first!.changedAt).toBeGreaterThan(Date.now() - 600_000)
    writeFileSync(join(folder, "a.csv"), "more")
    const [second] = await found(finder, `${folder}/*.csv`)
    expect(second!.version).not.toBe(first!.version)
  })

  it("are objects of a store, by pages", async () => {
    const store = new MemoryObjectStore()
    const objects = Object.assign(store, {
      listObjects: async (prefix: string, { after = "" }: { after?: string } = {}) =>
        (await store.list(prefix, { after, limit: 1000 })).map((key) => ({ key, version: "1", changedAt: 5 })),
    })
    const opened: string[] = []
    const openObjects = async (address: string) => {
      opened.push(address)
      return objects
    }
    for (let i = 0; i < 1500; i++) await store.put(`in/${i}.${i % 2 === 0 ? "csv" : "txt"}`, "x")
    const finder = new MatchFinder({ openObjects, dataDir: "/none" })
    const matches = await found(finder, "s3://bucket/in/*.csv?region=eu")
    expect(matches).toHaveLength(750)
    expect(matches[0]).toEqual({ path: "s3://bucket/in/0.csv", version: "1", changedAt: 5, complete: true })
    expect(opened).toEqual(["s3://bucket?region=eu"])
  })
})

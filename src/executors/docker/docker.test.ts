// Faults of the engine, injected into a fake one; docker.slow.test.ts runs on a real one.

import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import type { Clock } from "../../core/model/ports.ts"
import { DEFAULT_POLICY } from "../../core/settings/policy.ts"
import { currentOwner } from "../../objects/owner.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { allLines, assignment, launch, type Overrides, realClock } from "../conformance/fixture.ts"
import { DockerExecutor } from "./docker.ts"
import { FakeEngine } from "./testing/fake-engine.ts"

const frame = (stream: number, text: string): Buffer => {
  const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(text.length, 4)
  return Buffer.concat([header, Buffer.from(text)])
}

/** Pauses are short, so that many failed requests take little time. */
const fastClock: Clock = { ...realClock, after: (ms, fn) => realClock.after(ms / 100, fn) }

const setup = async (prepare: (engine: FakeEngine) => void = () => {}, clock = realClock) => {
  const folder = await mkdtemp(join(tmpdir(), "ork-docker-"))
  const engine = new FakeEngine()
  prepare(engine)
  const host = await engine.start()
  const objects = new FileObjectStore(join(folder, "objects"))
  const logged: string[] = []
  const executor = new DockerExecutor({
    objects,
    clock,
    dataDir: join(folder, "data"),
    env: { DOCKER_HOST: host, HOME: folder },
    log: { warn: (_, message) => void logged.push(message) },
  })
  onTestFinished(async () => {
    await executor.stop()
    await engine.stop()
    await rm(folder, { recursive: true, force: true })
  })
  await executor.start()
  const run = ({ node, ...rest }: Overrides = {}) =>
    launch(
      { executor, objects, folder, cleanup: async () => {} },
      assignment(folder, { shell: "true" }, { ...rest, node: { image: "there", ...node } }),
    )
  const onlyContainer = async () => {
    await vi.waitUntil(() => [...engine.containers.values()].some(({ status }) => status === "running"))
    return [...engine.containers.values()][0]!
  }
  const outputFile = async (): Promise<string> => {
    const owners = join(folder, "data/docker/owners")
    const [owner] = await readdir(owners)
    const [attempt] = await readdir(join(owners, owner!))
    return join(owners, owner!, attempt!, "output.json")
  }
  return { engine, executor, run, onlyContainer, outputFile, folder, logged }
}

test("a container is created, followed and removed, with its files", async () => {
  const { engine, run, onlyContainer, folder } = await setup(
    (fake) => (fake.log = Buffer.concat([frame(1, "[1]\n"), frame(2, "e\n")])),
  )
  const running = run()
  const { id } = await onlyContainer()
  engine.end(id, 0)
  expect(await running.result).toMatchObject({
    state: "success",
    exitCode: 0,
    output: { inline: [1] },
    externalId: id.slice(0, 12),
  })
  expect(engine.containers.size).toBe(0)
  const [owner] = await readdir(join(folder, "data/docker/owners"))
  expect(await readdir(join(folder, "data/docker/owners", owner!))).toEqual([])
})

test("a missing image is pulled once; one that does not exist fails without a retry", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => fake.pullable.add("far:latest"))
  const running = run({ node: { image: "far" } })
  engine.end((await onlyContainer()).id, 0)
  expect((await running.result).state).toBe("success")
  expect(engine.requests.filter((name) => name === "POST /images/create")).toHaveLength(1)
  expect(await run({ node: { image: "nowhere" } }).result).toMatchObject({
    state: "failed",
    retryable: false,
    error: "could not start: the image nowhere could not be pulled: manifest for nowhere:latest not found: manifest unknown",
  })
})

test("a mount that the policy forbids fails the attempt without a retry, and creates no container", async () => {
  const { engine, run } = await setup()
  expect(await run({ workingDir: "/", policy: DEFAULT_POLICY.fields }).result).toMatchObject({
    state: "failed",
    retryable: false,
    error: "could not start: the policy of this server does not allow the mount of / (policy.mounts in ork.yaml)",
  })
  expect(engine.requests).not.toContain("POST /containers/create")
})

test("an error of the registry may be retried", async () => {
  const { run } = await setup((fake) => {
    fake.faults = [{ on: "POST /images/create", times: 1, response: { status: 500, message: "toomanyrequests: slow down" } }]
  })
  const end = await run({ node: { image: "far" } }).result
  expect(end).toMatchObject({ state: "failed", error: expect.stringContaining("slow down") as string })
  expect(end.retryable).toBeUndefined()
})

test("when the response to a create is lost, the container is adopted", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.faults = [{ on: "POST /containers/create", times: 1, response: "drop" }]
  })
  const running = run()
  const container = await onlyContainer()
  engine.end(container.id, 0)
  expect((await running.result).state).toBe("success")
  expect(container.starts).toBe(1)
})

test("a container of the same name that is not Ork's is left alone", async () => {
  const { engine, run } = await setup()
  const taken = { id: "x", name: "ork-a1", labels: {}, status: "running", exitCode: 0, starts: 1, signals: [] } as const
  engine.containers.set("x", { ...taken, labels: {}, signals: [] })
  const end = await run({ attemptId: "a1" }).result
  expect(end).toMatchObject({
    state: "failed",
    error: expect.stringContaining("taken by a container that is not Ork's") as string,
  })
  expect(engine.containers.has("x")).toBe(true)
})

test("when the response to a start is lost, the container is not started twice", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.faults = [{ on: "POST /containers/ID/start", times: 1, response: "drop" }]
  })
  const running = run()
  const container = await onlyContainer()
  engine.end(container.id, 3)
  expect(await running.result).toMatchObject({ state: "failed", error: "exit code 3" })
  expect(container.starts).toBe(1)
})

test("a container that cannot be started fails with the reason", async () => {
  const message = 'OCI runtime create failed: exec: "nope": executable file not found in $PATH: unknown'
  const { engine, run } = await setup((fake) => {
    fake.faults = [{ on: "POST /containers/ID/start", times: 1, response: { status: 400, message } }]
  })
  expect(await run().result).toMatchObject({ state: "failed", error: "could not start: nope: not found in this image" })
  expect(engine.containers.size).toBe(0)
})

test("a log whose connection breaks loses and repeats nothing", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.log = Buffer.concat([frame(1, "one\ntwo\n"), frame(2, "warn\n"), frame(1, "three\n")])
    fake.breaks = [12, 0, 24]
  })
  const running = run()
  const { id } = await onlyContainer()
  await running.line("three")
  engine.end(id, 0)
  expect((await running.result).state).toBe("success")
  const lines = (await allLines(running.log)).map(({ stream, line }) => `${stream} ${line}`)
  expect(lines.toSorted()).toEqual(["stderr warn", "stdout one", "stdout three", "stdout two"])
})

test("a log is read to its end, however often its connections break", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.log = Buffer.concat([frame(1, "one\n"), frame(1, "[2]\n")])
    fake.breaks = [12]
    fake.faults = [{ on: "GET /containers/ID/logs", times: 30, response: "drop" }]
  }, fastClock)
  const running = run()
  engine.end((await onlyContainer()).id, 0)
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["one", "[2]"])
})

test("a log whose stream ends too early is read again after the end", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.log = frame(1, "one\n")
    fake.faults = [{ on: "POST /containers/ID/wait", times: 1, response: "drop" }]
  })
  const running = run()
  const { id } = await onlyContainer()
  await running.line("one")
  engine.log = Buffer.concat([engine.log, frame(1, "[2]\n")])
  engine.end(id, 0)
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [2] } })
})

test("a success whose log cannot be read is known by its output file only", async () => {
  const broken = (fake: FakeEngine): void => {
    fake.breaks = [0]
    fake.faults = [{ on: "GET /containers/ID/logs", times: 99, response: { status: 500, message: "the log is damaged" } }]
  }
  const { engine, run, onlyContainer, outputFile } = await setup(broken, fastClock)
  const without = run()
  engine.end((await onlyContainer()).id, 0)
  expect(await without.result).toMatchObject({
    state: "failed",
    error: "its output is unknown, because its log is incomplete: the log is damaged",
  })
  const withFile = run()
  const { id } = await onlyContainer()
  await writeFile(await outputFile(), "[3]")
  engine.end(id, 0)
  expect(await withFile.result).toMatchObject({ state: "success", output: { inline: [3] } })
})

test("a container outlives an outage of its engine", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.log = frame(1, "[1]\n")
    fake.faults = [{ on: "POST /containers/ID/wait", times: 60, response: "drop" }]
  }, fastClock)
  const running = run()
  const { id } = await onlyContainer()
  await vi.waitUntil(() => engine.faults[0]!.times === 0, { timeout: 10_000, interval: 5 })
  await engine.goAway()
  engine.end(id, 0)
  await engine.comeBack()
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(engine.containers.size).toBe(0)
})

test("a quiet task lives on when a proxy breaks its idle connections again and again", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => (fake.log = frame(1, "[1]\n")), fastClock)
  const running = run()
  const { id } = await onlyContainer()
  const waits = () => engine.requests.filter((name) => name === "POST /containers/ID/wait").length
  for (let broken = 1; broken <= 50; broken++) {
    engine.breakConnections()
    await vi.waitUntil(() => waits() > broken, { interval: 5 })
  }
  engine.end(id, 0)
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
})

test("a task waits for an engine that is away when it is to start", async () => {
  const { engine, run, onlyContainer } = await setup(() => {}, fastClock)
  await engine.goAway()
  const running = run()
  await new Promise((resolve) => fastClock.after(10_000, () => resolve(null)))
  await engine.comeBack()
  engine.end((await onlyContainer()).id, 0)
  expect((await running.result).state).toBe("success")
})

test("an outage of the engine in the middle of a pull is waited for", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => fake.pullable.add("new:latest"), fastClock)
  engine.faults = [{ on: "POST /images/create", times: 2, response: "cut" }]
  const running = run({ node: { image: "new" } })
  engine.end((await onlyContainer()).id, 0)
  expect((await running.result).state).toBe("success")
})

test("a container that the engine stopped watching has not ended", async () => {
  const { engine, run, onlyContainer } = await setup(() => {}, fastClock)
  engine.faults = [{ on: "POST /containers/ID/wait", times: 1, response: { status: 200, message: "context canceled" } }]
  const running = run()
  const { id } = await onlyContainer()
  await vi.waitUntil(() => engine.requests.filter((name) => name === "POST /containers/ID/wait").length === 2)
  engine.end(id, 3)
  expect(await running.result).toMatchObject({ state: "failed", exitCode: 3 })
})

test("a task that times out before its engine is back reports what it waited for", async () => {
  const { engine, run } = await setup(() => {}, fastClock)
  await engine.goAway()
  const running = run()
  running.stop("timeout")
  expect(await running.result).toMatchObject({
    state: "timeout",
    startedAt: null,
    waitedFor: expect.stringContaining("cannot be reached") as string,
  })
  await engine.comeBack()
})

test("a container that could not be stopped during an outage is removed when the engine is back", async () => {
  const { engine, run, onlyContainer } = await setup(() => {}, fastClock)
  const running = run({ graceMs: 20 })
  await onlyContainer()
  await engine.goAway()
  running.stop("timeout")
  expect(await running.result).toMatchObject({ state: "timeout" })
  expect(engine.containers.size).toBe(1)
  await engine.comeBack()
  await vi.waitUntil(() => engine.containers.size === 0, { timeout: 10_000 })
})

test("a container of a dead process that cannot be removed keeps no other from being removed, and is removed later", async () => {
  const owner = currentOwner().replace(/-\d+$/, "-1")
  const { engine, logged } = await setup((fake) => {
    for (const id of ["a", "b"]) {
      const labels = { "ork.owner": owner, "ork.data": "x", "ork.attempt": id }
      fake.containers.set(id, { id, name: id, labels, status: "running", exitCode: 0, starts: 1, signals: [] })
    }
    fake.faults = [{ on: "DELETE /containers/ID", times: 3, response: { status: 500, message: "device or resource busy" } }]
  }, fastClock)
  await vi.waitUntil(() => engine.containers.size === 0, { timeout: 10_000 })
  expect(engine.requests.filter((request) => request === "DELETE /containers/ID").length).toBe(5)
  expect(logged).toEqual(["failed to remove containers of ended attempts; trying again"])
})

test("an attempt whose container cannot be removed ends, and the container is removed later", async () => {
  const { engine, run, onlyContainer } = await setup(() => {}, fastClock)
  const running = run()
  const { id } = await onlyContainer()
  engine.faults = [{ on: "DELETE /containers/ID", times: 4, response: { status: 500, message: "device or resource busy" } }]
  engine.end(id, 0)
  expect((await running.result).state).toBe("success")
  await vi.waitUntil(() => engine.containers.size === 0, { timeout: 10_000 })
})

test.each([
  ["killed through the engine", "lost", { exitCode: 137, killed: true }],
  ["whose process is killed", "failed", { exitCode: 137, killed: false }],
  ["that ends with an exit code of its own after a signal", "failed", { exitCode: 3, killed: true }],
])("a container %s is %s", async (_, state, { exitCode, killed }) => {
  const { engine, run, onlyContainer } = await setup()
  const running = run()
  const container = await onlyContainer()
  container.killed = killed
  engine.end(container.id, exitCode)
  expect((await running.result).state).toBe(state)
})

test("a container that ended with its engine is lost", async () => {
  const { engine, run, onlyContainer } = await setup(() => {}, fastClock)
  const running = run()
  const { id } = await onlyContainer()
  await engine.goAway()
  engine.end(id, 143)
  await engine.comeBack()
  expect(await running.result).toMatchObject({
    state: "lost",
    error: "its container was stopped by somebody else: exit code 143 (SIGTERM)",
  })
})

test("the request for the end of a container is retried", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.faults = [{ on: "POST /containers/ID/wait", times: 2, response: { status: 500, message: "later" } }]
  })
  const running = run()
  engine.end((await onlyContainer()).id, 0)
  expect((await running.result).state).toBe("success")
})

test("a container that somebody removes is lost", async () => {
  const { engine, run, onlyContainer } = await setup()
  const running = run()
  const { id } = await onlyContainer()
  engine.end(id, 137)
  engine.containers.delete(id)
  expect(await running.result).toMatchObject({ state: "lost" })
})

test("a stop sends SIGTERM, then SIGKILL after the grace period", async () => {
  const { run, onlyContainer } = await setup()
  const running = run({ graceMs: 20 })
  const container = await onlyContainer()
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled", exitCode: 137 })
  expect(container.signals).toEqual(["SIGTERM", "SIGKILL"])
})

test("a success before the stop stays a success", async () => {
  const { engine, run, onlyContainer } = await setup((fake) => {
    fake.faults = [{ on: "POST /containers/ID/wait", times: 1, response: { status: 500, message: "later" } }]
  })
  const running = run()
  engine.end((await onlyContainer()).id, 0)
  running.stop("cancel")
  expect((await running.result).state).toBe("success")
})

test("an unreachable or unsupported engine fails the start with advice", async () => {
  const unreachable = new DockerExecutor({
    objects: new FileObjectStore("/nonexistent"),
    clock: realClock,
    dataDir: "/nonexistent",
    env: { DOCKER_HOST: "unix:///nonexistent/sock" },
    log: { warn() {} },
  })
  await expect(unreachable.start()).rejects.toThrow(
    /engine at unix:\/\/\/nonexistent\/sock cannot be reached \(.*ENOENT.*\): start Docker or Podman/,
  )
  await expect(setup((fake) => (fake.apiVersion = "1.24"))).rejects.toThrow("supports API 1.24 to 1.24; Ork needs one between")
  await expect(setup((fake) => (fake.minVersion = fake.apiVersion = "1.60"))).rejects.toThrow("Ork needs one between")
})

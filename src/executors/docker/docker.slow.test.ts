// Runs against a real Docker engine, which the test starts.

import { execFile } from "node:child_process"
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { connect, createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest"
import { type DockerDaemon, IMAGE, startDocker } from "../../../test/support/components/docker.ts"
import type { DockerDefinition } from "../../core/model/definition.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { allLines, assignment, launch, realClock } from "../conformance/fixture.ts"
import type { ExecutorFixture, Overrides } from "../conformance/fixture.ts"
import type { Assignment } from "../executor.ts"
import { DockerExecutor } from "./docker.ts"

let engine: DockerDaemon
beforeAll(async () => {
  engine = await startDocker()
}, 120_000)
afterAll(() => engine.stop(), 60_000)

const docker = async (...args: string[]): Promise<string> =>
  (await promisify(execFile)("docker", ["-H", engine.host, ...args])).stdout.trim()

const setup = async (host = engine.host): Promise<ExecutorFixture & { executor: DockerExecutor }> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-docker-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const executor = new DockerExecutor({
    objects,
    clock: realClock,
    dataDir: join(folder, "data"),
    env: { DOCKER_HOST: host },
    log: { warn() {} },
  })
  await executor.start()
  return {
    executor,
    objects,
    folder,
    async cleanup() {
      await executor.stop()
      expect(await docker("ps", "-aq")).toBe("")
      await rm(folder, { recursive: true, force: true })
    },
  }
}

type More = Overrides & { docker?: DockerDefinition }

describe("in a container", () => {
  let fixture: Awaited<ReturnType<typeof setup>>
  beforeAll(async () => {
    fixture = await setup()
  })
  afterAll(() => fixture.cleanup())

  const run = (command: Assignment["command"], { docker: fields = {}, node, ...rest }: More = {}) =>
    launch(
      fixture,
      assignment(fixture.folder, command, { fields: { docker: fields }, ...rest, node: { image: IMAGE, ...node } }),
    )
  const shell = (script: string, more?: More) => run({ shell: script }, more)
  const linesOf = async (launched: ReturnType<typeof shell>): Promise<string[]> => {
    const end = await launched.result
    expect(end, JSON.stringify(end)).toMatchObject({ state: "success" })
    return (await allLines(launched.log)).map((line) => line.line)
  }

  test("a script runs, with separate streams, and its output is the file it wrote", async () => {
    const launched = shell('echo out; echo err >&2; echo \'{"rows":3}\' > "$ORK_OUTPUT"')
    expect(await launched.result).toMatchObject({ state: "success", exitCode: 0, output: { inline: { rows: 3 } } })
    const lines = (await allLines(launched.log)).map(({ stream, line }) => `${stream} ${line}`)
    expect(lines.toSorted()).toEqual(["stderr err", "stdout out"])
    expect((await launched.started).externalId).toMatch(/^[0-9a-f]{12}$/)
  })

  test("the last line is the output when there is no output file", async () => {
    expect(await shell("echo hello; echo '[1,2]'").result).toMatchObject({ state: "success", output: { inline: [1, 2] } })
    expect(await shell("echo hello").result).toMatchObject({ state: "success", output: { inline: null } })
  })

  test("a large output becomes an object, and invalid JSON fails the attempt", async () => {
    const end = await shell("(printf '\"'; head -c 200000 /dev/zero | tr \"\\0\" x; printf '\"') > $ORK_OUTPUT").result
    expect(end).toMatchObject({ state: "success", output: { bytes: 200_002 } })
    const bad = await shell("echo nope > $ORK_OUTPUT").result
    expect(bad).toMatchObject({ state: "failed", error: expect.stringContaining("not valid JSON") as string })
  })

  test("an output file that is a link out of its folder is not read", async () => {
    const end = await shell("ln -s /etc/passwd $ORK_OUTPUT").result
    expect(end).toMatchObject({ state: "failed", error: expect.stringContaining("$ORK_OUTPUT cannot be read") as string })
  })

  test("the input is on stdin and in $ORK_INPUT, also if it has megabytes", async () => {
    const [first, second] = await linesOf(shell('cat; echo; cat "$ORK_INPUT"'))
    expect([first, second]).toEqual(['{"greeting":"hello"}', '{"greeting":"hello"}'])
    const input = { text: "y".repeat(3_000_000) }
    expect(await linesOf(shell('wc -c < "$ORK_INPUT"; wc -c', { input }))).toEqual(["3000011", "3000011"])
    expect((await shell("true", { input }).result).state).toBe("success")
  })

  test("the task has its own environment and that of the image, but not that of the server", async () => {
    const lines = await linesOf(run({ argv: ["env"] }, { env: { TOKEN: "mine" }, parallelIndex: 2, parallelCount: 5 }))
    expect(lines).toEqual(
      expect.arrayContaining(["TOKEN=mine", "FROM_IMAGE=yes", "ORK_PARALLEL_INDEX=2", "ORK_OUTPUT=/ork/output.json"]),
    )
    expect(lines.filter((line) => /^(LANG|TZ|NODE|VITEST|DOCKER)/.test(line))).toEqual([])
  })

  test("the run's folder is mounted at /work, and other mounts at their targets", async () => {
    await writeFile(join(fixture.folder, "seen.txt"), "here\n")
    const script = "pwd; cat seen.txt; echo made > made.txt"
    expect(await linesOf(shell(script))).toEqual(["/work", "here"])
    expect(await readdir(fixture.folder)).toContain("made.txt")
    const mounts = ["./seen.txt:/in/seen.txt:ro"]
    const other = "pwd; ls /work 2>/dev/null || true; cat /in/seen.txt; echo x 2>/dev/null > /in/seen.txt || echo read-only"
    expect(await linesOf(shell(other, { docker: { work: false, mounts } }))).toEqual(["/", "here", "read-only"])
    const upstreamDir = fixture.folder
    expect(await linesOf(shell("cat $ORK_UPSTREAM/seen.txt", { upstreamDir }))).toEqual(["here"])
  })

  test("a container has no capabilities, no new privileges, an init and a limit of processes", async () => {
    const script =
      "grep -E 'CapEff|NoNewPrivs' /proc/self/status; tr '\\0' ' ' < /proc/1/cmdline; cat /sys/fs/cgroup/pids/pids.max"
    const text = (await linesOf(shell(script))).join("\n")
    expect(text).toMatch(/CapEff:\s0+$/m)
    expect(text).toMatch(/NoNewPrivs:\s1/)
    expect(text).toMatch(/init/)
    expect(text).toMatch(/4096$/)
    const more = await linesOf(shell("grep CapEff /proc/self/status", { docker: { cap_add: ["NET_RAW"] } }))
    expect(more).toEqual(["CapEff:\t0000000000002000"])
    const user = await linesOf(shell('id -u; echo "[7]" > $ORK_OUTPUT', { docker: { user: "1234", read_only: true } }))
    expect(user).toEqual(["1234"])
  })

  test("exit codes, missing programs and missing images have clear errors", async () => {
    expect(await shell("exit 7").result).toMatchObject({ state: "failed", exitCode: 7, error: "exit code 7" })
    expect(await shell("kill -9 $$").result).toMatchObject({ state: "failed", error: "exit code 137 (SIGKILL)" })
    expect(await run({ argv: ["nope"] }).result).toMatchObject({
      state: "failed",
      exitCode: 127,
      error: "exit code 127 (a command was not found)",
    })
    const never = await run(null, { node: { image: "ork-none" }, docker: { pull: "never" } }).result
    expect(never).toMatchObject({
      state: "failed",
      retryable: false,
      error: "could not start: the image ork-none is missing, and may not be pulled (pull: never)",
    })
    const missing = await run(null, { node: { image: "127.0.0.1:1/ork-none" } }).result
    expect(missing).toMatchObject({
      state: "failed",
      error: expect.stringContaining("the image 127.0.0.1:1/ork-none could not be pulled") as string,
    })
    expect(missing.retryable).toBeUndefined()
  })

  test("a missing folder is named in the error", async () => {
    const end = await shell("true", { docker: { mounts: ["./missing:/x"] } }).result
    expect(end).toMatchObject({ state: "failed", retryable: false })
    expect(end.error).toContain(`${join(fixture.folder, "missing")} does not exist on the engine's machine`)
  })

  test("a task that exceeds its memory limit fails with that reason", async () => {
    const script = "head -c 200000000 /dev/zero | tail > /dev/null; exit $?"
    const end = await shell(script, { node: { image: IMAGE, resources: { memoryBytes: 32 << 20, cpu: 0.5 } } }).result
    expect(end).toMatchObject({ state: "failed" })
    expect(end.error).toContain("a process was killed, because it used more than 32 MiB of memory")
  })

  test("a cancelled task can clean up before it ends", async () => {
    const running = shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    await running.line("up")
    running.stop("cancel")
    expect(await running.result).toMatchObject({ state: "cancelled" })
    expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["up", "bye"])
  })

  test("a task that ignores SIGTERM is killed after the grace period", async () => {
    const running = shell("trap '' TERM; echo up; while :; do sleep 0.1; done", { graceMs: 300 })
    await running.line("up")
    running.stop("timeout")
    expect(await running.result).toMatchObject({ state: "timeout", exitCode: 137 })
    expect(await docker("ps", "-aq")).toBe("")
  })

  test("a log of 50 MB is complete, and visible while it is written", async () => {
    const launched = shell("echo begin; head -c 50000000 /dev/zero | tr '\\0' a | fold -w 100; echo end")
    expect(await launched.line("begin")).toMatchObject({ stream: "stdout" })
    expect((await launched.result).state).toBe("success")
    expect(await launched.log.size()).toBe(50_499_999 + "begin\nend\n".length)
  })

  test("secrets are masked in the log", async () => {
    const lines = await linesOf(shell('echo "it is $TOKEN"', { env: { TOKEN: "hunter2" }, secrets: ["hunter2"] }))
    expect(lines).toEqual(["it is ***"])
  })
})

describe("an engine behind a connection that breaks", () => {
  /** Starts an executor whose connections to the engine go through a proxy. */
  const setupProxy = async () => {
    const folder = await mkdtemp(join(tmpdir(), "ork-proxy-"))
    const sockets = new Set<Socket>()
    const proxy = createServer((client) => {
      const server = connect(engine.host.replace("unix://", ""))
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        sockets.add(from)
        from.on("error", () => {})
        from.on("close", () => to.destroy())
        from.pipe(to)
      }
    })
    const path = join(folder, "sock")
    const comeBack = () => new Promise<void>((resolve) => proxy.listen(path, resolve))
    const goAway = async (): Promise<void> => {
      const closed = new Promise((resolve) => proxy.close(resolve))
      for (const socket of sockets) socket.destroy()
      sockets.clear()
      await closed
    }
    await comeBack()
    const fixture = await setup(`unix://${path}`)
    onTestFinished(async () => {
      await fixture.cleanup()
      await goAway()
      await rm(folder, { recursive: true, force: true })
    })
    const run = (script: string) => launch(fixture, assignment(fixture.folder, { shell: script }, { node: { image: IMAGE } }))
    return { run, goAway, comeBack }
  }

  test("a task that ends during an outage succeeds with its whole log and its output", async () => {
    const { run, goAway, comeBack } = await setupProxy()
    const running = run("echo up; sleep 1; echo more; echo '[1]'")
    await running.line("up")
    await goAway()
    await vi.waitUntil(async () => (await docker("ps", "-q")) === "", { timeout: 20_000, interval: 200 })
    await comeBack()
    expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
    expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["up", "more", "[1]"])
  })

  test("a stop reaches a container when the engine is back", async () => {
    const { run, goAway, comeBack } = await setupProxy()
    const running = run("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    await running.line("up")
    await goAway()
    running.stop("cancel")
    await comeBack()
    expect(await running.result).toMatchObject({ state: "cancelled" })
    expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["up", "bye"])
  })
})

test.each([["rm", "-f"], ["kill"], ["stop"]])("a container that docker %s ends is lost", async (...command) => {
  const fixture = await setup()
  const running = launch(fixture, assignment(fixture.folder, { shell: "echo up; sleep 600" }, { node: { image: IMAGE } }))
  await running.line("up")
  await docker(...command, await docker("ps", "-q"))
  const end = await running.result
  expect(end, JSON.stringify(end)).toMatchObject({ state: "lost" })
  await fixture.cleanup()
})

test("the stop of the executor ends running tasks", async () => {
  const fixture = await setup()
  const running = launch(fixture, assignment(fixture.folder, { shell: "echo up; sleep 600" }, { node: { image: IMAGE } }))
  await running.line("up")
  await fixture.executor.stop()
  expect(await running.result).toMatchObject({ state: "lost", error: "stopped, because Ork is shutting down" })
  await fixture.cleanup()
})

test("a start removes the containers of dead owners only", async () => {
  const fixture = await setup()
  const running = launch(fixture, assignment(fixture.folder, { shell: "echo up; sleep 600" }, { node: { image: IMAGE } }))
  await running.line("up")
  const namespace = /^\d+/.exec(
    await docker("inspect", "-f", '{{index .Config.Labels "ork.owner"}}', await docker("ps", "-q")),
  )![0]
  const dead = await docker("run", "-d", "--label", `ork.owner=${namespace}-999999-1`, IMAGE, "sleep", "600")
  const foreign = await docker("run", "-d", "--label", "ork.owner=1-2-3", "--label", "ork.data=x", IMAGE, "sleep", "600")
  const second = await setup()
  const left = await docker("ps", "-q", "--no-trunc")
  expect(left).not.toContain(dead)
  expect(left).toContain(foreign)
  expect(left.split("\n").length).toBe(2)
  await docker("rm", "-f", foreign)
  running.stop("cancel")
  expect((await running.result).state).toBe("cancelled")
  await second.cleanup()
  await fixture.cleanup()
})

import { execFileSync } from "node:child_process"
import { mkdir, mkdtemp, open, readdir, rm, writeFile } from "node:fs/promises"
import { constants, tmpdir } from "node:os"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, test, vi } from "vitest"
import { DEFAULT_POLICY, OPEN_POLICY, type PolicyFields } from "../../core/settings/policy.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { MAX_LOG_BYTES } from "../../objects/logs/log-keys.ts"
import { allLines, assignment, launch, marked, realClock } from "../conformance/fixture.ts"
import type { Capabilities, ExecutorFixture } from "../conformance/fixture.ts"
import { leftoverScript, newMark } from "../conformance/leftover-processes.ts"
import { executorSuite } from "../conformance/suite.ts"
import { Helper } from "./helper.ts"
import { nativeHelper } from "./native.ts"
import { ProcessExecutor } from "./process.ts"
import type { Exited, StartRequest } from "./protocol.ts"

type Kind = { helper: "auto" | "native" | "node"; namespace: boolean; confined?: boolean; required?: boolean }

const SANDBOX = {
  close: [],
  fix: [],
  user: null,
  noUser: null,
  readable: null,
  limits: { processes: 16_384, memory: 2 ** 40, files: 4096 },
}

const setup = async ({
  helper,
  namespace,
  leaseMs,
  confined,
  required = false,
}: Kind & { leaseMs?: number }): Promise<ExecutorFixture & { executor: ProcessExecutor }> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-process-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const executor = new ProcessExecutor({
    objects,
    clock: realClock,
    helper,
    dataDir: join(folder, "data"),
    namespace,
    ...(leaseMs !== undefined && { leaseMs }),
    ...(confined === true && {
      sandbox: { ...SANDBOX, required, dataDir: join(folder, "data"), hide: [join(folder, "data")] },
    }),
  })
  await executor.start()
  const cleanup = async () => {
    await executor.stop()
    await rm(folder, { recursive: true, force: true })
  }
  return { executor, objects, folder, cleanup }
}

const suite = (name: string, kind: Kind, can: Capabilities): void =>
  executorSuite(name, () => setup(kind), {
    can,
    host: (folder) => [kind.helper, kind.namespace ? "yes" : "no", folder],
  })

const native = await nativeHelper()
const root = process.geteuid?.() === 0

if ("unavailable" in native) {
  process.stderr.write(`SKIPPED: every test of the compiled spawn helper: ${native.unavailable}\n`)
  describe.skip(`executor: process, compiled helper (skipped: ${native.unavailable})`)
} else {
  const can = { usage: true, scrubbed: true, hidden: false, memoryKill: root }
  if (root) suite("process, compiled helper, pid namespace", { helper: "native", namespace: true }, { ...can, hidden: true })
  else process.stderr.write("SKIPPED: the compiled spawn helper in a pid namespace, which needs root\n")
  suite("process, compiled helper, no namespace", { helper: "native", namespace: false }, can)
  const confined = { helper: "native", namespace: true, confined: true } as const
  suite("process, compiled helper, confined", confined, { ...can, hidden: true })
}
suite(
  "process, helper in JavaScript",
  { helper: "node", namespace: false },
  { usage: false, scrubbed: false, hidden: false, memoryKill: false },
)

test("the files of an attempt are removed at its end", async () => {
  const fixture = await setup({ helper: "node", namespace: false })
  const run = (shell: string) => launch(fixture, assignment(fixture.folder, { shell })).result
  expect((await run("echo '[1]' > $ORK_OUTPUT")).state).toBe("success")
  expect((await run("head -c 100000 /dev/zero > $ORK_OUTPUT; exit 1")).state).toBe("failed")
  const [own] = await readdir(join(fixture.folder, "data", "io"))
  expect(await readdir(join(fixture.folder, "data", "io", own!))).toEqual([])
  await fixture.executor.stop()
  expect(await readdir(join(fixture.folder, "data", "io"))).toEqual([])
  await fixture.cleanup()
})

const kinds: [string, Kind][] = [
  ...("path" in native ? [["compiled helper", { helper: "native", namespace: root }] as [string, Kind]] : []),
  ...("path" in native ? [["compiled helper, no namespace", { helper: "native", namespace: false }] as [string, Kind]] : []),
  ["helper in JavaScript", { helper: "node", namespace: false }],
]

describe.each(kinds)("a log above the limit: %s", (_, kind) => {
  test("ends with a note and the last line of stdout, which is the output", async () => {
    const fixture = await setup(kind)
    const script = `yes | head -c 5000000; echo noise >&2; printf '{"rows":'; sleep 0.4; echo '3}'; echo`
    const { result, log } = launch(fixture, assignment(fixture.folder, { shell: script }, { maxLogBytes: 1 << 20 }))
    expect(await result).toMatchObject({ state: "success", output: { inline: { rows: 3 } } })
    expect(await log.size()).toBeLessThan(1.1 * 2 ** 20)
    const lines = (await allLines(log)).map(({ line }) => line)
    expect(lines.slice(-2)).toEqual([
      "ork: the log is longer than 1 MiB: the rest is dropped, except for the last line of stdout",
      '{"rows":3}',
    ])
    await fixture.cleanup()
  })

  test("has no output when its last line is too long to keep", async () => {
    const fixture = await setup(kind)
    const script = `yes | head -c 2000000; printf '['; head -c 200000 /dev/zero | tr '\\0' ' '; echo '{}'`
    const { result } = launch(fixture, assignment(fixture.folder, { shell: script }, { maxLogBytes: 1 << 20 }))
    expect(await result).toMatchObject({ state: "success", output: { inline: null } })
    await fixture.cleanup()
  })
})

describe.each(kinds)("when the helper dies: %s", (_, kind) => {
  test("its attempts are lost, their processes are killed, and the next launch starts a new helper", async () => {
    const fixture = await setup(kind)
    const mark = newMark()
    const script = `${leftoverScript(mark, false)}\nwait`
    const running = launch(fixture, assignment(fixture.folder, { shell: script }, { env: { MARK: mark } }))
    await running.line("ready")
    for (const pid of marked(`-${process.pid}-`, [process.pid, ...marked(mark)])) process.kill(pid, "SIGKILL")
    const end = await running.result
    expect(end.state).toBe("lost")
    expect(end.error).toMatch(/the spawn helper ended unexpectedly/)
    await vi.waitFor(() => expect(marked(mark)).toEqual([]))
    expect(await launch(fixture, assignment(fixture.folder, { shell: "true" })).result).toMatchObject({ state: "success" })
    await fixture.cleanup()
  })

  test("the stop of the executor ends running tasks", async () => {
    const fixture = await setup(kind)
    const running = launch(fixture, assignment(fixture.folder, { shell: "echo up; exec sleep 600" }))
    await running.line("up")
    await fixture.executor.stop()
    expect(await running.result).toMatchObject({ state: "lost", error: "stopped, because Ork is shutting down" })
    await fixture.cleanup()
  })
})

test.runIf("path" in native && root)(
  "when the init process of the namespace is killed, the next launch starts a new helper",
  async () => {
    const fixture = await setup({ helper: "native", namespace: true })
    const running = launch(fixture, assignment(fixture.folder, { shell: "echo up; exec sleep 600" }))
    await running.line("up")
    const { externalId } = await running.started
    const helperAndInit = marked(`-${process.pid}-`, [process.pid, Number(externalId)])
    process.kill(Math.max(...helperAndInit), "SIGKILL")
    expect((await running.result).state).toBe("lost")
    expect(await launch(fixture, assignment(fixture.folder, { shell: "true" })).result).toMatchObject({ state: "success" })
    await fixture.cleanup()
  },
)

test("describe returns the helper in use and the reason", async () => {
  const fixture = await setup({ helper: "node", namespace: false })
  expect(await fixture.executor.describe()).toEqual({
    helper: "node",
    reason: "configured",
    isolation: "environ",
    cgroups: "none",
    protections: null,
  })
  await fixture.cleanup()
})

test.runIf("path" in native)("without a compiled helper that starts, the one in JavaScript is used", async () => {
  const cache = await mkdtemp(join(tmpdir(), "ork-cache-"))
  await mkdir(join(cache, "ork"), { mode: 0o700 })
  await writeFile(join(cache, "ork", basename((native as { path: string }).path)), "", { mode: 0o755 })
  vi.stubEnv("XDG_CACHE_HOME", cache)
  const fixture = await setup({ helper: "auto", namespace: false })
  vi.unstubAllEnvs()
  expect(await fixture.executor.describe()).toMatchObject({
    helper: "node",
    reason: expect.stringMatching(/did not start/) as string,
  })
  await fixture.cleanup()
  await rm(cache, { recursive: true })
})

/** Runs a command by a helper alone. */
const start = (helper: Helper, shell: string, rest: Partial<StartRequest> = {}) => {
  const request: StartRequest = {
    argv: ["/bin/sh", "-c", shell],
    env: ["PATH=/usr/bin:/bin"],
    cwd: "/",
    input: null,
    homeOfUser: false,
    stdinPath: "",
    logPath: "",
    outputPath: "",
    runAs: "",
    notRoot: false,
    memoryBytes: 0,
    cpuMillis: 0,
    secrets: [],
    pipes: "",
    maxLogBytes: MAX_LOG_BYTES,
    ...rest,
  }
  const ended = Promise.withResolvers<Exited>()
  const fail = (reason: unknown): void => ended.reject(new Error(JSON.stringify(reason)))
  const id = helper.run(request, { started: () => {}, failed: fail, exited: ended.resolve, lost: fail })
  return { id, exited: ended.promise }
}

const helpers: [name: string, command: string, args: string[]][] = [
  ...("path" in native ? [["native", native.path, []] as [string, string, string[]]] : []),
  ["node", process.execPath, [fileURLToPath(new URL("./fallback.ts", import.meta.url))]],
]

test.each(helpers)(
  "tasks of the %s helper that start slowly delay no other task, and can be stopped",
  async (_, command, args) => {
    const folder = await mkdtemp(join(tmpdir(), "ork-slow-"))
    const fifo = join(folder, "fifo")
    execFileSync("mkfifo", [fifo])
    const helper = await Helper.start(command, args)
    // Opening the pipe takes as long as nobody writes to it.
    const [slow, killed, ...others] = Array.from({ length: 8 }, () => start(helper, "exec cat", { stdinPath: fifo }))
    expect(await start(helper, "exit 3").exited).toMatchObject({ code: 3 })
    helper.kill(killed!.id, constants.signals.SIGKILL)
    expect(await killed!.exited).toMatchObject({ code: null, signal: constants.signals.SIGKILL, stopRequested: true })
    helper.kill(slow!.id, constants.signals.SIGTERM)
    expect(await start(helper, "exit 4").exited).toMatchObject({ code: 4 })
    const writer = await open(fifo, "w")
    expect(await slow!.exited).toMatchObject({ code: null, signal: constants.signals.SIGTERM, stopRequested: true })
    await writer.close()
    for (const { exited } of others) expect(await exited).toMatchObject({ code: 0 })
    await helper.stop()
    await rm(folder, { recursive: true })
  },
)

test.each("unavailable" in native ? (["node"] as const) : (["native", "node"] as const))(
  "tasks of the %s helper live while this process renews its lease, end when it is blocked for longer, and others start afterwards",
  async (helper) => {
    const fixture = await setup({ helper, namespace: false, leaseMs: 500 })
    const long = launch(fixture, assignment(fixture.folder, { shell: "echo begun; sleep 600" }))
    expect((await launch(fixture, assignment(fixture.folder, { shell: "sleep 1.2" })).result).state).toBe("success")
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)
    expect(await long.result).toMatchObject({ state: "lost", error: expect.stringContaining("longer than its lease") })
    expect((await launch(fixture, assignment(fixture.folder, { shell: "true" })).result).state).toBe("success")
    await fixture.cleanup()
  },
)

test("a helper that does not answer is killed", async () => {
  const mark = newMark()
  await expect(Helper.start("sleep", [mark], 100)).rejects.toThrow("it did not answer within 100 ms")
  await vi.waitFor(() => expect(marked(`sleep\0${mark}`)).toEqual([]))
})

test.runIf("path" in native)("a limit for the size of files makes a log incomplete, and does not end the helper", async () => {
  const folder = await mkdtemp(join(tmpdir(), "ork-limit-"))
  const helper = await Helper.start("/bin/sh", ["-c", `ulimit -f 8; exec ${(native as { path: string }).path} --no-namespace`])
  const { exited } = start(helper, "head -c 1000000 /dev/zero", { logPath: join(folder, "log") })
  expect(await exited).toMatchObject({ code: 0, logErrno: constants.errno.EFBIG })
  await helper.stop()
  await rm(folder, { recursive: true })
})

test.runIf("path" in native)("describe returns how tasks are isolated", async () => {
  for (const namespace of [true, false]) {
    const fixture = await setup({ helper: "native", namespace })
    const isolation = namespace && root ? "namespace" : "reaper"
    expect(await fixture.executor.describe()).toMatchObject({ helper: "native", reason: null, isolation })
    await fixture.cleanup()
  }
})

test.runIf(root).each(kinds)("no user with the id 0 starts a task unless the policy allows root: %s", async (_, kind) => {
  const fixture = await setup(kind)
  const as = (runAs: string, policy: PolicyFields) =>
    launch(fixture, assignment(fixture.folder, { shell: "id -u" }, { node: { runAs }, policy, workingDir: "/" })).result
  for (const runAs of ["root", "0", "00"]) {
    const { error } = await as(runAs, DEFAULT_POLICY.fields)
    expect(error).toMatch(/^could not start: run_as \w+: the policy of this server does not allow run_as with a user of id 0 /)
    expect(await as(runAs, OPEN_POLICY.fields)).toMatchObject({ state: "success" })
  }
  expect(await as("nobody", DEFAULT_POLICY.fields)).toMatchObject({ state: "success" })
  expect((await as("+0", OPEN_POLICY.fields)).error).toMatch(/there is no user \+0/)
  await fixture.cleanup()
})

describe.runIf("path" in native)("confined tasks", () => {
  test("run without confinement if the policy says so", async () => {
    const fixture = await setup({ helper: "native", namespace: true, confined: true })
    const script = "grep NoNewPrivs /proc/self/status; ls data"
    const policy = { ...DEFAULT_POLICY.fields, sandbox: "off" as const }
    const { result, log } = launch(fixture, assignment(fixture.folder, { shell: script }, { policy }))
    expect((await result).state).toBe("success")
    const [privileges, ...folders] = (await allLines(log)).map(({ line }) => line)
    expect(privileges).toBe("NoNewPrivs:\t0")
    expect(folders).toEqual((await readdir(join(fixture.folder, "data"))).toSorted())
    await fixture.cleanup()
    const strict = await setup({ helper: "native", namespace: true, confined: true, required: true })
    const refused = await launch(strict, assignment(strict.folder, { shell: "true" }, { policy })).result
    expect(refused.error).toMatch(/`sandbox: required` allows no task without confinement/)
    await strict.cleanup()
  })

  test("see only their folders in the data folder, and have the limits", async () => {
    const fixture = await setup({ helper: "native", namespace: true, confined: true })
    const script = `ls data; ulimit -Hn; grep NoNewPrivs /proc/self/status`
    const { result, log } = launch(fixture, assignment(fixture.folder, { shell: script }))
    expect((await result).state).toBe("success")
    const lines = (await allLines(log)).map(({ line }) => line)
    expect(lines).toEqual(["bundles", "io", "pushed", "python", "upstream", "work", "4096", "NoNewPrivs:\t1"])
    expect((await fixture.executor.describe()).protections?.missing).toEqual([])
    await fixture.cleanup()
  })

  test("cannot read or signal the server where there are no namespaces, by Landlock", async () => {
    const fixture = await setup({ helper: "native", namespace: false, confined: true })
    const { active, missing } = (await fixture.executor.describe()).protections!
    expect(missing).toEqual([
      "namespaces: the kernel or the container does not allow them",
      "the data folder is visible, because there is no mount namespace",
      ...(root ? ["root in tasks has every right of Ork"] : []),
    ])
    expect(active.some((text) => text.includes("Landlock"))).toBe(true)
    const script = `cat /proc/${process.pid}/environ && exit 7; kill -0 ${process.pid} && exit 8; exit 0`
    expect(await launch(fixture, assignment(fixture.folder, { shell: script })).result).toMatchObject({ state: "success" })
    await fixture.cleanup()
  })

  test("can move files between folders where there are no namespaces", async () => {
    const fixture = await setup({ helper: "native", namespace: false, confined: true })
    const script = 'mkdir a b; echo x > a/f; ln a/f b/g && python3 -c \'import os; os.rename("a/f", "b/f")\''
    expect(await launch(fixture, assignment(fixture.folder, { shell: script })).result).toMatchObject({ state: "success" })
    await fixture.cleanup()
  })

  test("do not start at all where protections are missing and required", async () => {
    await expect(setup({ helper: "native", namespace: false, confined: true, required: true })).rejects.toThrow(
      "`sandbox: required` cannot be met here: namespaces: the kernel or the container does not allow them; the data folder is visible",
    )
    await expect(setup({ helper: "node", namespace: false, confined: true, required: true })).rejects.toThrow(
      "`sandbox: required` cannot be met here: the compiled helper is not in use",
    )
  })
})

test("an input that cannot be written leaves no file", async () => {
  const fixture = await setup({ helper: "node", namespace: false })
  try {
    const overrides = { input: { own: 1 }, inputFiles: ["missing"], upstreamDir: fixture.folder }
    const end = await launch(fixture, assignment(fixture.folder, { shell: "true" }, overrides)).result
    expect(end).toMatchObject({ state: "failed", error: expect.stringContaining("missing.json") as string })
    const files = await readdir(join(fixture.folder, "data/io"), { recursive: true })
    expect(files.filter((file) => file.endsWith(".json"))).toEqual([])
  } finally {
    await fixture.cleanup()
  }
})

// Runs against a real Slurm of one node, which the test starts.

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest"
import { type SlurmCluster, startSlurm } from "../../../test/support/components/slurm.ts"
import type { SlurmDefinition } from "../../core/model/definition.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { allLines, assignment, launch, type Overrides, realClock } from "../conformance/fixture.ts"
import type { Assignment } from "../executor.ts"
import { SlurmExecutor } from "./slurm.ts"

let cluster: SlurmCluster
let folder: string
let objects: FileObjectStore
let executor: SlurmExecutor

const newExecutor = async (): Promise<SlurmExecutor> => {
  const created = new SlurmExecutor({ objects, clock: realClock, folder: join(folder, "slurm"), command: "", env: cluster.env })
  await created.start()
  return created
}

beforeAll(async () => {
  cluster = await startSlurm()
  folder = await mkdtemp(join(tmpdir(), "ork-slurm-"))
  objects = new FileObjectStore(join(folder, "objects"))
  executor = await newExecutor()
}, 120_000)
afterEach(async () => {
  // No job leaves files behind, however it ended.
  expect((await readdir(join(folder, "slurm"), { recursive: true })).filter((name) => name !== "attempts")).toEqual([])
})
afterAll(async () => {
  await executor.stop()
  await cluster.stop()
  await rm(folder, { recursive: true, force: true })
}, 60_000)

const slurm = async (program: string, ...args: string[]): Promise<string> =>
  (await promisify(execFile)(program, args, { env: cluster.env })).stdout.trim()

type More = Overrides & { slurm?: SlurmDefinition }

const run = (command: Assignment["command"], { slurm: fields = {}, ...rest }: More = {}, by = executor) =>
  launch(
    { executor: by, objects, folder, cleanup: async () => {} },
    assignment(folder, command, { fields: { slurm: fields }, ...rest }),
  )
const shell = (script: string, more?: More) => run({ shell: script }, more)

test("a job runs, with separate streams, and its output is the file it wrote", async () => {
  const launched = shell('echo out; echo err >&2; cat; echo \'{"rows":3}\' > "$ORK_OUTPUT"; echo; echo "$TOKEN in $PWD"', {
    env: { TOKEN: "it's mine" },
    secrets: ["mine"],
  })
  expect(await launched.result).toMatchObject({ state: "success", exitCode: 0, output: { inline: { rows: 3 } } })
  const lines = (await allLines(launched.log)).map(({ stream, line }) => `${stream} ${line}`)
  expect(lines.toSorted()).toEqual(["stderr err", `stdout it's *** in ${folder}`, "stdout out", 'stdout {"greeting":"hello"}'])
  expect((await launched.started).externalId).toMatch(/^\d+$/)
})

test("a job inherits only a few variables of the server's environment", async () => {
  const launched = run({ argv: ["env"] })
  expect((await launched.result).state).toBe("success")
  const names = (await allLines(launched.log)).map(({ line }) => line.split("=")[0]!)
  expect(
    names.filter(
      (name) =>
        !/^(ORK_|SLURM|PATH$|HOME$|LANG$|TZ$|USER$|LOGNAME$|PWD$|OLDPWD$|SHLVL$|_$|TMPDIR$|HOSTNAME$|ENVIRONMENT$)/.test(name),
    ),
  ).toEqual([])
})

test("resources and options reach the cluster", async () => {
  const node = { resources: { cpu: 1.5, memoryBytes: 100 << 20 } }
  const running = shell("echo up; sleep 600", { node, slurm: { partition: "debug", time: "90m", options: ["--nice=7"] } })
  await running.line("up")
  const job = await slurm("scontrol", "show", "job", "-o", (await running.started).externalId!)
  expect(job).toMatch(/NumCPUs=2 .*CPUs\/Task=2 .*MinMemoryNode=100M/)
  expect(job).toMatch(/Nice=7 .*TimeLimit=01:30:00/)
  expect(job).toMatch(/JobName=ork-attempt-/)
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
})

test("exit codes, signals and rejected submissions have clear errors", async () => {
  const [code, signal, kill] = await Promise.all([
    shell("exit 7").result,
    shell("kill -9 $$").result,
    // Kills the script around the command too, so that no exit code is written.
    shell("kill -9 $PPID $$", { slurm: { partition: "debug" } }).result,
  ])
  expect(code).toMatchObject({ state: "failed", exitCode: 7, error: "exit code 7" })
  expect(signal).toMatchObject({ state: "failed", exitCode: 137, error: "exit code 137 (SIGKILL)" })
  expect(kill).toMatchObject({ state: "failed", error: expect.stringContaining("its job was killed by SIGKILL") as string })
  expect(await shell("true", { slurm: { partition: "nope" } }).result).toMatchObject({
    state: "failed",
    retryable: false,
    error: expect.stringContaining("Invalid partition name specified") as string,
  })
})

test("instances that are launched together become one array", async () => {
  const before = Number((await slurm("sbatch", "--parsable", "--wrap=true", "--output=/dev/null")).trim())
  const all = Array.from({ length: 12 }, (_, i) =>
    shell('echo "[$ORK_PARALLEL_INDEX]"', { parallelIndex: i, parallelCount: 12 }),
  )
  const results = await Promise.all(all.map(({ result }) => result))
  expect(results.map(({ output }) => output)).toEqual(all.map((_, i) => ({ inline: [i] })))
  const ids = results.map(({ externalId }) => externalId!)
  expect(new Set(ids.map((id) => id.split("_")[0]))).toEqual(new Set([String(before + 1)]))
  expect(ids.map((id) => Number(id.split("_")[1])).toSorted((a, b) => a - b)).toEqual(all.map((_, i) => i))
}, 60_000)

test("a cancelled job can clean up before it ends", async () => {
  const running = shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
  await running.line("up")
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  const stdout = (await allLines(running.log)).filter(({ stream }) => stream === "stdout")
  expect(stdout.map(({ line }) => line)).toEqual(["up", "bye"])
})

test("a job that ignores SIGTERM is killed after the grace period", async () => {
  const running = shell("trap '' TERM; echo up; while :; do sleep 0.1; done", { graceMs: 500 })
  await running.line("up")
  running.stop("timeout")
  expect(await running.result).toMatchObject({ state: "timeout" })
  await vi.waitUntil(async () => !/RUNNING/.test(await slurm("squeue", "-h", "-o", "%T")), { timeout: 20_000, interval: 100 })
})

test("a waiting job is removed from the queue on cancel, and a job that somebody else cancels has failed", async () => {
  const busy = shell("echo up; sleep 600", { node: { resources: { cpu: 2 } } })
  await busy.line("up")
  const waiting = shell("echo never")
  const isWaiting = (): boolean =>
    /^"Slurm job \d+ is PENDING \((Resources|Priority)\)"$/.test(JSON.stringify(waiting.details.at(-1)))
  await vi.waitUntil(isWaiting, { timeout: 20_000, interval: 100 })
  expect(busy.details.at(-1)).toMatch(/^Slurm job \d+ is RUNNING$/)
  waiting.stop("cancel")
  expect(await waiting.result).toMatchObject({ state: "cancelled", startedAt: null })
  await slurm("scancel", (await busy.started).externalId!)
  expect(await busy.result).toMatchObject({ state: "failed", error: "its job was cancelled from outside of Ork" })
})

test("a job whose node fails is lost", async () => {
  const running = shell("echo up; exec sleep 600")
  await running.line("up")
  const host = await slurm("squeue", "-h", "-o", "%N")
  await slurm("scontrol", "update", `nodename=${host}`, "state=down", "reason=test")
  const result = await running.result
  expect(result).toMatchObject({ state: "lost", error: "its node failed" })
  await vi.waitUntil(async () => /idle/.test(await slurm("sinfo", "-h", "-o", "%T")), { timeout: 20_000, interval: 100 })
})

test("another server finds a job with its whole log, and the job runs once", async () => {
  const attemptId = "attempt-adopted"
  const script = "echo one; touch started; while [ ! -e go ]; do sleep 0.1; done; echo two; echo '[2]'"
  const first = run({ shell: script }, { attemptId })
  await first.line("one")
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  const second = await newExecutor()
  const again = run({ shell: script }, { attemptId }, second)
  await again.line("one")
  await slurm("touch", join(folder, "go"))
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect((await allLines(again.log)).map(({ line }) => line)).toEqual(["one", "two", "[2]"])
  await second.stop()
})

test("a job that ended while no server was running is found with its output", async () => {
  const attemptId = "attempt-unseen"
  const first = run({ shell: "echo up; while [ ! -e end ]; do sleep 0.05; done; echo '[3]'" }, { attemptId })
  await first.line("up")
  first.stop("shutdown")
  await first.result
  await slurm("touch", join(folder, "end"))
  const exit = join(folder, "slurm", `ork-${attemptId}`, "0", "exit")
  await vi.waitUntil(() => existsSync(exit), { timeout: 20_000, interval: 50 })
  const again = run({ shell: "echo not again" }, { attemptId })
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [3] } })
})

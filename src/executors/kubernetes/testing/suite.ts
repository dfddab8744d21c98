// Tests of the executor for any cluster: the fake one, and a real one if there is one.

import { beforeAll, describe, expect, test, vi } from "vitest"
import {
  allLines,
  assignment,
  type ExecutorFixture,
  launch,
  type Launched,
  type Overrides,
  uniqueId,
} from "../../conformance/fixture.ts"
import type { Assignment, Executor } from "../../executor.ts"

/** Access to the cluster with more rights than Ork has. */
export interface Admin {
  /** Returns the objects of an attempt. */
  list(kind: "jobs" | "pods" | "secrets", attemptId: string): Promise<ClusterObject[]>
  delete(kind: "jobs" | "pods", name: string): Promise<void>
  /** Returns the messages of events about an object. */
  warnings(about: string): Promise<string[]>
}

export interface ClusterObject {
  metadata: { name: string; deletionTimestamp?: string }
  status?: { phase?: string; conditions?: { type: string; status: string }[] }
}

export interface ClusterFixture extends ExecutorFixture {
  /** Image with a shell that runs as root by default. */
  image: string
  /** Creates the executor of another server. */
  newExecutor(): Executor
  admin: Admin
}

/** Features that only some clusters have. */
export interface ClusterCapabilities {
  /** The namespace enforces the Pod Security Standard "restricted". */
  restricted: boolean
  /** The cluster kills a process that uses more memory than its container may. */
  memory: boolean
  /** The cluster ends a Job at its deadline, which takes more than a minute. */
  deadline: boolean
}

const SOON = { timeout: 120_000, interval: 50 }

export interface Launcher {
  run(command: Assignment["command"], more?: Overrides, by?: Executor): Launched
  shell(script: string, more?: Overrides, by?: Executor): Launched
}

export const launcherOf = (fixture: () => ClusterFixture): Launcher => {
  const run: Launcher["run"] = (command, { node, ...more } = {}, by) => {
    const { executor, image, folder } = fixture()
    const work = assignment(folder, command, {
      attemptId: `t${uniqueId()}`,
      graceMs: 1000,
      ...more,
      node: { executor: "kubernetes", image, startTimeoutMs: 300_000, ...node },
    })
    return launch({ ...fixture(), executor: by ?? executor }, work)
  }
  return { run, shell: (script, more, by) => run({ shell: script }, more, by) }
}

export const clusterTests = (name: string, make: () => Promise<ClusterFixture>, can: ClusterCapabilities): void => {
  let fixture: ClusterFixture
  const { run, shell } = launcherOf(() => fixture)

  describe(`tasks on ${name}`, () => {
    beforeAll(async () => {
      fixture = await make()
      return () => fixture.cleanup()
    })

    test("a last line of JSON is the output, and all lines are in the log", async () => {
      const { result, started, log } = shell("echo one; echo two; echo '{\"rows\": 3}'")
      expect(await result).toMatchObject({ state: "success", output: { inline: { rows: 3 } }, exitCode: 0 })
      expect((await started).externalId).toMatch(/^[a-z0-9-]+\/ork-t[0-9a-f]+$/)
      expect((await allLines(log)).map(({ line }) => line)).toEqual(["one", "two", '{"rows": 3}'])
    })

    test("a last line without a newline is the output too", async () => {
      expect(await shell("echo up; printf '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    })

    test("the input is a file, and the output is the file $ORK_OUTPUT", async () => {
      const input = { text: "ü $HOME $(HOME) $$ 'x' \"y\" \\ \n" }
      const end = await shell('cat "$ORK_INPUT" > "$ORK_OUTPUT"; echo \'{"not":"this"}\'', { input }).result
      expect(end).toMatchObject({ state: "success", output: { inline: input } })
    })

    test("a large input arrives completely", async () => {
      const input = { text: "x".repeat(300_000) }
      const end = await shell('wc -c < "$ORK_INPUT" | sed "s/ *\\(.*\\)/[\\1]/"', { input }).result
      expect(end).toMatchObject({ state: "success", output: { inline: [JSON.stringify(input).length] } })
    })

    test("variables and arguments arrive unchanged, including dollar signs", async () => {
      const env = { A: "1", TRICKY: "$(A) $$(A) $A $$ ü" }
      const script = 'printf "%s\\n" "$TRICKY" "$0" "$1"; echo "$(echo sub) $((1+1))"'
      const { result, log } = run({ argv: ["sh", "-c", script, "$(A)", "$$"] }, { env, fields: { kubernetes: {} } })
      expect((await result).state).toBe("success")
      expect((await allLines(log)).map(({ line }) => line)).toEqual([env.TRICKY, "$(A)", "$$", "sub 2"])
    })

    test("a secret arrives in the container, and is masked in the log", async () => {
      const { result, log } = shell('echo "got $TOKEN"; [ "$TOKEN" = hunter2-hunter2 ] && echo \'[1]\'', {
        env: { TOKEN: "hunter2-hunter2" },
        secrets: ["hunter2-hunter2"],
      })
      expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
      expect((await allLines(log)).map(({ line }) => line)).toEqual(["got ***", "[1]"])
    })

    test("an exit code other than 0 fails the attempt, with the container's termination message", async () => {
      expect(await shell("exit 3").result).toMatchObject({ state: "failed", error: "exit code 3", exitCode: 3 })
      expect(await shell('echo no disk > "$ORK_OUTPUT"; exit 1').result).toMatchObject({ error: "exit code 1: no disk" })
      expect(await shell("nope").result).toMatchObject({
        error: expect.stringContaining("127 (a command was not found)") as string,
      })
    })

    test("a program that is missing in the image is named in the error", async () => {
      const { result } = run({ argv: [] }, { fields: { kubernetes: { entrypoint: ["/no/such/program"] } } })
      expect(await result).toMatchObject({
        state: "failed",
        error: "could not start: /no/such/program: not found in this image",
      })
    })

    test("a log of many lines is complete, in order, and visible while it is written", async () => {
      const { result, line, log } = shell("echo begin; sleep 1; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done")
      await line("begin")
      expect((await result).state).toBe("success")
      const lines = (await allLines(log)).map(({ line: text }) => text)
      expect(lines).toEqual(["begin", ...Array.from({ length: 3000 }, (_, i) => `line ${i}`)])
    })

    test("a cancel ends the pod with SIGTERM, and the attempt ends when pod and Job are gone; the Secret is deleted too", async () => {
      const attemptId = `t${uniqueId()}`
      const script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
      const secret = { env: { TOKEN: "hunter2-hunter2" }, secrets: ["hunter2-hunter2"] }
      const { result, line, stop, log } = shell(script, { attemptId, graceMs: 20_000, ...secret })
      await line("up")
      stop("cancel")
      expect(await result).toMatchObject({ state: "cancelled" })
      expect((await allLines(log)).map(({ line: text }) => text)).toContain("bye")
      for (const kind of ["pods", "jobs"] as const) expect(await fixture.admin.list(kind, attemptId)).toEqual([])
      await vi.waitUntil(async () => (await fixture.admin.list("secrets", attemptId)).length === 0, SOON)
    })

    test("a task that ignores SIGTERM is killed after the grace period", async () => {
      const { result, line, stop } = shell("trap '' TERM; echo up; while :; do sleep 0.1; done")
      await line("up")
      stop("timeout")
      expect(await result).toMatchObject({ state: "timeout" })
    })

    test("a server that shuts down leaves the job alone, and the next one finds it with its whole log", async () => {
      const attemptId = `t${uniqueId()}`
      const env = { GO: attemptId }
      const script = "echo one; sleep 2; echo two; echo '[2]'"
      const before = fixture.newExecutor()
      const first = shell(script, { attemptId, env }, before)
      await first.line("one")
      first.stop("shutdown")
      expect(await first.result).toMatchObject({ state: "lost" })
      await before.stop!()
      const again = shell(script, { attemptId, env })
      expect(await again.result).toMatchObject({ state: "success", output: { inline: [2] } })
      expect((await allLines(again.log)).map(({ line }) => line)).toEqual(["one", "two", "[2]"])
    })

    test("a missing image fails with the registry's message", async () => {
      // Nothing listens at this registry on the node itself, so that the test needs no internet.
      const { result } = shell("true", { node: { image: "127.0.0.1:1/ork/missing:1" } })
      expect(await result).toMatchObject({
        state: "failed",
        error: expect.stringMatching(/^could not start: the image cannot be pulled: .*127\.0\.0\.1:1\/ork\/missing/s) as string,
      })
    })

    test("an image with an invalid name fails at once", async () => {
      const { result } = shell("true", { node: { image: "Not An Image" } })
      expect(await result).toMatchObject({ state: "failed", retryable: false })
    })

    test("an image that would run as root is rejected with advice", async () => {
      const { result } = shell("true", { fields: { kubernetes: { security: { run_as_user: "image" } } } })
      const error = expect.stringContaining("set kubernetes.security.run_as_user") as string
      expect(await result).toMatchObject({ state: "failed", retryable: false, error })
    })

    test.runIf(can.restricted)("a start timeout names the policy of the namespace that forbids the pod", async () => {
      const attemptId = `t${uniqueId()}`
      const security = { allow_privilege_escalation: true }
      const { result, stop } = shell("true", { attemptId, fields: { kubernetes: { security } } })
      await vi.waitUntil(async () => (await fixture.admin.warnings(`ork-${attemptId}`)).length > 0, SOON)
      stop("timeout")
      const waitedFor = expect.stringContaining("violates PodSecurity") as string
      expect(await result).toMatchObject({ state: "timeout", startedAt: null, waitedFor })
    })

    test("a task that fits no node waits, and a start timeout names the reason", async () => {
      const attemptId = `t${uniqueId()}`
      const kubernetes = { node_selector: { "ork.dev/no-such-node": attemptId } }
      const { result, stop } = shell("true", { attemptId, fields: { kubernetes } })
      await vi.waitUntil(async () => {
        const [pod] = await fixture.admin.list("pods", attemptId)
        return pod?.status?.conditions?.some(({ type, status }) => type === "PodScheduled" && status === "False") === true
      }, SOON)
      stop("timeout")
      const waitedFor = expect.stringMatching(/nodes are available/) as string
      expect(await result).toMatchObject({ state: "timeout", startedAt: null, waitedFor })
      expect(await fixture.admin.list("jobs", attemptId)).toEqual([])
    })

    test("secrets, and inputs that contain one, are neither in the job nor in its pod", async () => {
      const attemptId = `t${uniqueId()}`
      const { result, line, stop } = shell("echo up; sleep 60", {
        attemptId,
        env: { TOKEN: "hunter2-hunter2", URL: "https://me:hunter2-hunter2@host" },
        input: { token: "hunter2-hunter2" },
        secrets: ["hunter2-hunter2"],
      })
      await line("up")
      for (const kind of ["jobs", "pods"] as const) {
        const found = await fixture.admin.list(kind, attemptId)
        expect(found).toHaveLength(1)
        expect(JSON.stringify(found)).not.toContain("hunter2")
      }
      expect(await fixture.admin.list("secrets", attemptId)).toHaveLength(1)
      stop("cancel")
      await result
    })

    test("a task whose pod is deleted by somebody is lost, even if it exits with 0; one whose job is deleted has failed", async () => {
      const [first, second] = [`t${uniqueId()}`, `t${uniqueId()}`]
      const script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
      const [one, other] = [shell(script, { attemptId: first }), shell(script, { attemptId: second })]
      await Promise.all([one.line("up"), other.line("up")])
      const [pod] = await fixture.admin.list("pods", first)
      await Promise.all([fixture.admin.delete("pods", pod!.metadata.name), fixture.admin.delete("jobs", `ork-${second}`)])
      expect(await one.result).toMatchObject({ state: "lost", error: "its pod was deleted from outside of Ork" })
      expect(await other.result).toMatchObject({ state: "failed", error: "its job was deleted from outside of Ork" })
    })

    test("a task that ended while no server was running is found with its log and output", async () => {
      const attemptId = `t${uniqueId()}`
      const before = fixture.newExecutor()
      const first = shell("echo up; sleep 1; echo '[7]'", { attemptId }, before)
      await first.line("up")
      first.stop("shutdown")
      await first.result
      await before.stop!()
      const ended = async (): Promise<boolean> =>
        (await fixture.admin.list("pods", attemptId))[0]?.status?.phase === "Succeeded"
      await vi.waitUntil(ended, SOON)
      const again = shell("never run", { attemptId })
      expect(await again.result).toMatchObject({ state: "success", output: { inline: [7] } })
      expect((await allLines(again.log)).map(({ line }) => line)).toEqual(["up", "[7]"])
    })

    test("a long line that the runtime splits is joined again", async () => {
      const { result, log } = shell("head -c 50000 /dev/zero | tr '\\0' x; echo; echo '[1]'")
      expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
      expect((await allLines(log)).map(({ line }) => line.length)).toEqual([50_000, 3])
    })

    test("a task that writes nothing has an empty log and no output", async () => {
      const { result, log } = shell("sleep 1")
      expect(await result).toMatchObject({ state: "success", output: { inline: null } })
      expect(await allLines(log)).toEqual([])
    })

    test("twenty concurrent tasks have their own outputs", async () => {
      const all = Array.from({ length: 20 }, (_, i) => shell(`echo '[${i}]'`))
      const ends = await Promise.all(all.map(({ result }) => result))
      expect(ends.map(({ output }) => output)).toEqual(all.map((_, i) => ({ inline: [i] })))
    })

    test.runIf(can.memory)("a task that exceeds its memory limit fails with that reason", async () => {
      const node = { resources: { memoryBytes: 32 * 2 ** 20 } }
      const end = await shell("head -c 200000000 /dev/zero | tail", { node: { ...node } }).result
      expect(end).toMatchObject({ state: "failed", error: expect.stringContaining("more than 32 MiB of memory") as string })
    })

    test.runIf(can.deadline)("a task that no server stops is stopped by the cluster at its deadline", async () => {
      const end = await shell("echo up; sleep 600", { node: { timeoutMs: 1000, startTimeoutMs: null } }).result
      expect(end).toMatchObject({ state: "timeout", error: expect.stringContaining("stopped by the cluster") as string })
    })
  })
}

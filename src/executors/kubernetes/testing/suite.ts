// What holds for the executor on any cluster: the fake one of the tests, and a real one when there is one.

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

/** Who may do more in the cluster than Ork. */
export interface Admin {
  /** What there is of an attempt. */
  list(kind: "jobs" | "pods" | "secrets", attemptId: string): Promise<Shown[]>
  delete(kind: "jobs" | "pods", name: string): Promise<void>
  /** Messages of events about an object. */
  complaints(about: string): Promise<string[]>
}

/** As the cluster has it. */
export interface Shown {
  metadata: { name: string; deletionTimestamp?: string }
  status?: { phase?: string; conditions?: { type: string; status: string }[] }
}

export interface ClusterFixture extends ExecutorFixture {
  /** Has a shell, and would run as root. */
  image: string
  /** Another server. */
  newExecutor(): Executor
  admin: Admin
}

/** What only some clusters can show. */
export interface ClusterCapabilities {
  /** Pods must fit the Pod Security Standard "restricted". */
  restricted: boolean
  /** Ends a process that uses more memory than its container may have. */
  memory: boolean
  /** Ends a Job at its own deadline, which takes more than a minute. */
  deadline: boolean
}

/** For what a cluster does when it gets to it. */
const SOON = { timeout: 120_000, interval: 50 }

export interface Work {
  run(command: Assignment["command"], more?: Overrides, by?: Executor): Launched
  shell(script: string, more?: Overrides, by?: Executor): Launched
}

export const workOn = (fixture: () => ClusterFixture): Work => {
  const run: Work["run"] = (command, { node, ...more } = {}, by) => {
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
  const { run, shell } = workOn(() => fixture)

  describe(`tasks on ${name}`, () => {
    beforeAll(async () => {
      fixture = await make()
      return () => fixture.cleanup()
    })

    test("the last line that is JSON is the output, and all lines are the log", async () => {
      const { result, started, log } = shell("echo one; echo two; echo '{\"rows\": 3}'")
      expect(await result).toMatchObject({ state: "success", output: { inline: { rows: 3 } }, exitCode: 0 })
      expect((await started).externalId).toMatch(/^[a-z0-9-]+\/ork-t[0-9a-f]+$/)
      expect((await allLines(log)).map(({ line }) => line)).toEqual(["one", "two", '{"rows": 3}'])
    })

    test("a last line without its end counts too", async () => {
      expect(await shell("echo up; printf '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
    })

    test("the input is a file, and $ORK_OUTPUT another", async () => {
      const input = { text: "ü $HOME $(HOME) $$ 'x' \"y\" \\ \n" }
      const end = await shell('cat "$ORK_INPUT" > "$ORK_OUTPUT"; echo \'{"not":"this"}\'', { input }).result
      expect(end).toMatchObject({ state: "success", output: { inline: input } })
    })

    test("a large input arrives whole", async () => {
      const input = { text: "x".repeat(300_000) }
      const end = await shell('wc -c < "$ORK_INPUT" | sed "s/ *\\(.*\\)/[\\1]/"', { input }).result
      expect(end).toMatchObject({ state: "success", output: { inline: [JSON.stringify(input).length] } })
    })

    test("variables and arguments arrive as they are, dollars and all", async () => {
      const env = { A: "1", TRICKY: "$(A) $$(A) $A $$ ü" }
      const script = 'printf "%s\\n" "$TRICKY" "$0" "$1"; echo "$(echo sub) $((1+1))"'
      const { result, log } = run({ argv: ["sh", "-c", script, "$(A)", "$$"] }, { env, fields: { kubernetes: {} } })
      expect((await result).state).toBe("success")
      expect((await allLines(log)).map(({ line }) => line)).toEqual([env.TRICKY, "$(A)", "$$", "sub 2"])
    })

    test("a secret arrives, and stands nowhere", async () => {
      const { result, log } = shell('echo "got $TOKEN"; [ "$TOKEN" = hunter2-hunter2 ] && echo \'[1]\'', {
        env: { TOKEN: "hunter2-hunter2" },
        secrets: ["hunter2-hunter2"],
      })
      expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
      expect((await allLines(log)).map(({ line }) => line)).toEqual(["got ***", "[1]"])
    })

    test("an exit code fails the attempt, with the container's last words", async () => {
      expect(await shell("exit 3").result).toMatchObject({ state: "failed", error: "exit code 3", exitCode: 3 })
      expect(await shell('echo no disk > "$ORK_OUTPUT"; exit 1').result).toMatchObject({ error: "exit code 1: no disk" })
      expect(await shell("nope").result).toMatchObject({
        error: expect.stringContaining("127 (a command was not found)") as string,
      })
    })

    test("a program that is not in the image is told in words, and not tried again by the cluster", async () => {
      const { result } = run({ argv: [] }, { fields: { kubernetes: { entrypoint: ["/no/such/program"] } } })
      expect(await result).toMatchObject({
        state: "failed",
        error: "could not start: /no/such/program: not found in this image",
      })
    })

    test("a log of many lines is whole, in order, and seen while it is written", async () => {
      const { result, line, log } = shell("echo begin; sleep 1; i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done")
      await line("begin")
      expect((await result).state).toBe("success")
      const lines = (await allLines(log)).map(({ line: text }) => text)
      expect(lines).toEqual(["begin", ...Array.from({ length: 3000 }, (_, i) => `line ${i}`)])
    })

    test("cancel ends the pod with SIGTERM, and resolves when it is gone; its Secret goes too", async () => {
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

    test("one that ignores SIGTERM is killed after the grace", async () => {
      const { result, line, stop } = shell("trap '' TERM; echo up; while :; do sleep 0.1; done")
      await line("up")
      stop("timeout")
      expect(await result).toMatchObject({ state: "timeout" })
    })

    test("a server that goes leaves the job alone, and the next one finds it with all that it said", async () => {
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

    test("an image that is not there fails with the registry's words", async () => {
      // A registry on the node itself, at which nobody listens: no cluster needs the internet to say no.
      const { result } = shell("true", { node: { image: "127.0.0.1:1/ork/missing:1" } })
      expect(await result).toMatchObject({
        state: "failed",
        error: expect.stringMatching(/^could not start: the image cannot be pulled: .*127\.0\.0\.1:1\/ork\/missing/s) as string,
      })
    })

    test("an image of a bad name is refused at once", async () => {
      const { result } = shell("true", { node: { image: "Not An Image" } })
      expect(await result).toMatchObject({ state: "failed", retryable: false })
    })

    test("an image that would be root is not run as such, and told what to do", async () => {
      const { result } = shell("true", { fields: { kubernetes: { security: { run_as_user: "image" } } } })
      const error = expect.stringContaining("set kubernetes.security.run_as_user") as string
      expect(await result).toMatchObject({ state: "failed", retryable: false, error })
    })

    test.runIf(can.restricted)("what a namespace forbids is told when the task did not start in time", async () => {
      const attemptId = `t${uniqueId()}`
      const security = { allow_privilege_escalation: true }
      const { result, stop } = shell("true", { attemptId, fields: { kubernetes: { security } } })
      await vi.waitUntil(async () => (await fixture.admin.complaints(`ork-${attemptId}`)).length > 0, SOON)
      stop("timeout")
      const waitedFor = expect.stringContaining("violates PodSecurity") as string
      expect(await result).toMatchObject({ state: "timeout", startedAt: null, waitedFor })
    })

    test("one that no node takes waits, and tells why when it is stopped for that", async () => {
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

    test("secrets and inputs that hold one stand neither in the job nor in its pod", async () => {
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

    test("a pod that somebody deletes is lost, though it ends well for that; a job that somebody deletes has failed", async () => {
      const [first, second] = [`t${uniqueId()}`, `t${uniqueId()}`]
      const script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
      const [one, other] = [shell(script, { attemptId: first }), shell(script, { attemptId: second })]
      await Promise.all([one.line("up"), other.line("up")])
      const [pod] = await fixture.admin.list("pods", first)
      await Promise.all([fixture.admin.delete("pods", pod!.metadata.name), fixture.admin.delete("jobs", `ork-${second}`)])
      expect(await one.result).toMatchObject({ state: "lost", error: "its pod was deleted from outside of Ork" })
      expect(await other.result).toMatchObject({ state: "failed", error: "its job was deleted from outside of Ork" })
    })

    test("one that ended while no server was there is found with its log and output", async () => {
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

    test("a line longer than a runtime keeps in one piece comes as one", async () => {
      const { result, log } = shell("head -c 50000 /dev/zero | tr '\\0' x; echo; echo '[1]'")
      expect(await result).toMatchObject({ state: "success", output: { inline: [1] } })
      expect((await allLines(log)).map(({ line }) => line.length)).toEqual([50_000, 3])
    })

    test("a task that says nothing has a log that is empty, and no output", async () => {
      const { result, log } = shell("sleep 1")
      expect(await result).toMatchObject({ state: "success", output: { inline: null } })
      expect(await allLines(log)).toEqual([])
    })

    test("twenty tasks at once keep their outputs apart", async () => {
      const all = Array.from({ length: 20 }, (_, i) => shell(`echo '[${i}]'`))
      const ends = await Promise.all(all.map(({ result }) => result))
      expect(ends.map(({ output }) => output)).toEqual(all.map((_, i) => ({ inline: [i] })))
    })

    test.runIf(can.memory)("one that uses more memory than it may is told so", async () => {
      const node = { resources: { memoryBytes: 32 * 2 ** 20 } }
      const end = await shell("head -c 200000000 /dev/zero | tail", { node: { ...node } }).result
      expect(end).toMatchObject({ state: "failed", error: expect.stringContaining("more than 32 MiB of memory") as string })
    })

    test.runIf(can.deadline)("what no server stops is stopped by the cluster at its deadline", async () => {
      const end = await shell("echo up; sleep 600", { node: { timeoutMs: 1000, startTimeoutMs: null } }).result
      expect(end).toMatchObject({ state: "timeout", error: expect.stringContaining("stopped by the cluster") as string })
    })
  })
}

// What holds for the executor on any cluster: the fake one of the tests, and a real one when there is one.

import { beforeAll, describe, expect, test } from "vitest"
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

export interface ClusterFixture extends ExecutorFixture {
  /** Has a shell, and runs as anybody. */
  image: string
  /** Another server. */
  newExecutor(): Executor
}

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

export const clusterTests = (name: string, make: () => Promise<ClusterFixture>): void => {
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

    test("cancel ends the pod with SIGTERM, and resolves when it is gone", async () => {
      const { result, line, stop, log } = shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
      await line("up")
      stop("cancel")
      expect(await result).toMatchObject({ state: "cancelled" })
      expect((await allLines(log)).map(({ line: text }) => text)).toContain("bye")
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
      const { result } = shell("true", { node: { image: "missing/nothing-of-this-name:1" } })
      expect(await result).toMatchObject({
        state: "failed",
        error: expect.stringMatching(/^could not start: the image cannot be pulled: .*missing\/nothing/s) as string,
      })
    })

    test("an image of a bad name is refused at once", async () => {
      const { result } = shell("true", { node: { image: "Not An Image" } })
      expect(await result).toMatchObject({ state: "failed", retryable: false })
    })
  })
}

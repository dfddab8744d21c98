// Tests of a task's input, environment and log.

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { allLines, assignment, launch } from "./fixture.ts"
import type { Capabilities, ExecutorFixture, Overrides } from "./fixture.ts"

export const environmentTests = (fixture: () => ExecutorFixture, can: Capabilities): void => {
  const shell = (script: string, overrides?: Overrides) =>
    launch(fixture(), assignment(fixture().folder, { shell: script }, overrides))
  const argv = (list: string[], overrides?: Overrides) =>
    launch(fixture(), assignment(fixture().folder, { argv: list }, overrides))
  const linesOf = async (launched: ReturnType<typeof shell>): Promise<string[]> => {
    const end = await launched.result
    expect(end, JSON.stringify(end)).toMatchObject({ state: "success" })
    return (await allLines(launched.log)).map((line) => line.line)
  }

  test("the input is on stdin and in $ORK_INPUT", async () => {
    const input = { text: 'it\'s "quoted" $HOME ü', n: 1 }
    const [first, second] = await linesOf(shell('cat; echo; cat "$ORK_INPUT"', { input }))
    expect(JSON.parse(first!)).toEqual(input)
    expect(JSON.parse(second!)).toEqual(input)
  })

  test("an input of several megabytes arrives completely", async () => {
    const input = { text: "y".repeat(3_000_000) }
    expect(await linesOf(shell('wc -c < "$ORK_INPUT"; wc -c', { input }))).toEqual(["3000011", "3000011"])
  })

  test("files of upstream outputs are part of the input", async () => {
    const upstreamDir = join(fixture().folder, "upstream")
    mkdirSync(upstreamDir, { recursive: true })
    writeFileSync(join(upstreamDir, "load.json"), '{\n  "rows": [1, 2]\n}\n')
    writeFileSync(join(upstreamDir, "large.json"), JSON.stringify("z".repeat(2_000_000)))
    const overrides: Overrides = { input: { own: 1 }, inputFiles: ["load", "large"], upstreamDir }
    const script = `tr -d '\\n' | tr -s z; echo; tr -d '\\n' < "$ORK_INPUT" | tr -s z; echo`
    const [first, second] = await linesOf(shell(script, overrides))
    expect(JSON.parse(first!)).toEqual({ own: 1, load: { rows: [1, 2] }, large: "z" })
    expect(second).toBe(first)
  })

  test("a task has four variables of the server and its own, and nothing else", async () => {
    process.env["ORK_TEST_SECRET"] = "hunter2"
    try {
      const env = { TOKEN: "mine", LANG: "own" }
      const overrides: Overrides = { env, upstreamDir: "/up", parallelIndex: 2, parallelCount: 5, logicalDate: "2026-01-01" }
      const lines = await linesOf(argv(["env"], overrides))
      const variables = Object.fromEntries(
        lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
      )
      const names = [
        "ATTEMPT",
        "ATTEMPT_ID",
        "INPUT",
        "LOGICAL_DATE",
        "OUTPUT",
        "OWNER",
        "PARALLEL_COUNT",
        "PARALLEL_INDEX",
        "RUN_ID",
      ]
      const ours = [...names, "TASK_ID", "TASK_NAME", "UPSTREAM", "WORKFLOW_NAME"].map((name) => `ORK_${name}`)
      const server = ["HOME", "PATH", "TZ"].filter((name) => process.env[name] !== undefined)
      expect(Object.keys(variables).toSorted()).toEqual([...ours, ...server, "LANG", "TOKEN"].toSorted())
      expect(variables).toMatchObject({
        TOKEN: "mine",
        LANG: "own",
        ORK_UPSTREAM: "/up",
        ORK_PARALLEL_INDEX: "2",
        ORK_PARALLEL_COUNT: "5",
        ORK_LOGICAL_DATE: "2026-01-01",
        ORK_ATTEMPT: "1",
        ORK_TASK_NAME: "task",
        ORK_WORKFLOW_NAME: "conformance",
        ORK_RUN_ID: "run-1",
        ORK_TASK_ID: "task-1",
      })
    } finally {
      delete process.env["ORK_TEST_SECRET"]
    }
  })

  test.runIf(can.hidden)("a task cannot read the server's environment from /proc", async () => {
    const [mine, others] = await linesOf(
      shell("tr '\\0' '\\n' < /proc/$$/environ | grep -c ORK_RUN_ID; cat /proc/1/environ 2>/dev/null | wc -c"),
    )
    expect(mine).toBe("1")
    expect(others).toBe("0")
  })

  test("an argument list is not interpreted by a shell", async () => {
    const odd = ["$HOME", "`id`", "a b", "*", "'\"\\", "", "; exit 3", "ü\n2"]
    expect((await linesOf(argv(["printf", "<%s>\\n", ...odd]))).join("\n")).toBe(
      odd.map((argument) => `<${argument}>`).join("\n"),
    )
  })

  test("a task runs in its working folder, and script_dir is in its PATH", async () => {
    const { folder } = fixture()
    mkdirSync(join(folder, "tools"), { recursive: true })
    writeFileSync(join(folder, "tools", "greet"), "#!/bin/sh\necho hello from $PWD\n", { mode: 0o755 })
    const node = { scriptDir: "tools" }
    expect(await linesOf(argv(["greet"], { node }))).toEqual([`hello from ${folder}`])
    expect(await linesOf(shell("greet", { node }))).toEqual([`hello from ${folder}`])
  })

  test("the log can be read while the task runs, with time and stream of each line", async () => {
    const before = Date.now()
    const running = shell("echo out; echo err >&2; printf 'prompt> '; exec sleep 100")
    expect(await running.line("out")).toMatchObject({ stream: "stdout", line: "out" })
    expect(await running.line("err")).toMatchObject({ stream: "stderr", line: "err" })
    const prompt = await running.line("prompt> ")
    expect(prompt).toMatchObject({ stream: "stdout", more: true })
    expect(prompt.at).toBeGreaterThanOrEqual(before)
    expect(prompt.at).toBeLessThanOrEqual(Date.now())
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
  })

  test("lines of the two streams are not mixed", async () => {
    const script = "i=0; while [ $i -lt 200 ]; do printf 'out '; printf 'err ' >&2; echo $i; echo $i >&2; i=$((i+1)); done"
    const { result, log } = shell(script)
    expect((await result).state).toBe("success")
    const all = await allLines(log)
    const of = (stream: string) => all.filter((line) => line.stream === stream).map((line) => line.line)
    expect(of("stdout")).toEqual(Array.from({ length: 200 }, (_, i) => `out ${i}`))
    expect(of("stderr")).toEqual(Array.from({ length: 200 }, (_, i) => `err ${i}`))
  })

  test("the log contains every byte, text or not", async () => {
    const { result, log } = shell("printf 'gr\\303\\274\\303\\237e \\360\\237\\231\\202\\n\\377\\376\\000x\\r\\ny'")
    expect((await result).state).toBe("success")
    expect(Buffer.from((await log.read()).bytes).toString("hex")).toBe(
      Buffer.concat([Buffer.from("grüße 🙂\n"), Buffer.from([0xff, 0xfe, 0, 0x78, 0x0d, 0x0a, 0x79])]).toString("hex"),
    )
    expect((await allLines(log))[0]!.line).toBe("grüße 🙂")
  })

  test("a line of a megabyte is complete", async () => {
    const { result, log } = shell("head -c 1000000 /dev/zero | tr '\\0' z; echo; echo after")
    expect((await result).state).toBe("success")
    expect(await log.size()).toBe(1_000_007)
    const lines = await allLines(log)
    expect(lines.at(-1)!.line).toBe("after")
    expect(
      lines
        .slice(0, -1)
        .map((line) => line.line)
        .join(""),
    ).toBe("z".repeat(1_000_000))
  })
}

// Tests of attempts that end by themselves: success, output, failure.

import { mkdirSync } from "node:fs"
import { expect, test } from "vitest"
import type { Assignment } from "../executor.ts"
import { allLines, assignment, launch } from "./fixture.ts"
import type { Capabilities, ExecutorFixture, Overrides } from "./fixture.ts"

export const outcomeTests = (fixture: () => ExecutorFixture, can: Capabilities): void => {
  const go = (command: string | string[], overrides?: Overrides) =>
    launch(fixture(), assignment(fixture().folder, toCommand(command), overrides))
  const run = (command: string | string[], overrides?: Overrides) => go(command, overrides).result

  test("exit code 0 is a success, with pid, times and no output", async () => {
    const { result, started } = go("true")
    const { at, externalId } = await started
    const end = await result
    expect(end).toMatchObject({ state: "success", exitCode: 0, startedAt: at, externalId, output: { inline: null } })
    expect(Number(externalId)).toBeGreaterThan(1)
    expect(end.finishedAt).toBeGreaterThanOrEqual(at)
    expect(end.error).toBeUndefined()
  })

  test.runIf(can.usage)("peak memory and CPU time are recorded", async () => {
    const { usage } = await run("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    expect(usage!.maxRssBytes).toBeGreaterThan(500_000)
    expect(usage!.cpuUserMs! + usage!.cpuSystemMs!).toBeGreaterThan(0)
  })

  test("JSON in $ORK_OUTPUT is the output, of any type", async () => {
    expect(await run(`echo '{"a":[1,"ü"]}' > $ORK_OUTPUT`)).toMatchObject({
      state: "success",
      output: { inline: { a: [1, "ü"] } },
    })
    expect(await run(`printf 42 > $ORK_OUTPUT`)).toMatchObject({ output: { inline: 42 } })
    expect(await run(`echo null > $ORK_OUTPUT; echo '{"not":"this"}'`)).toMatchObject({ output: { inline: null } })
  })

  test("$ORK_OUTPUT may be written by renaming", async () => {
    expect(await run(`echo '[7]' > $ORK_OUTPUT.tmp && mv $ORK_OUTPUT.tmp $ORK_OUTPUT`)).toMatchObject({
      output: { inline: [7] },
    })
  })

  test("the last line of stdout is the output when it is a JSON object or array", async () => {
    expect(await run(`echo '{"old":1}'; echo '{"rows":3}'`)).toMatchObject({ output: { inline: { rows: 3 } } })
    expect(await run(`printf '[1,2]'`)).toMatchObject({ output: { inline: [1, 2] } })
    expect(await run(`echo '  {"padded":1}  '; echo; echo '   '`)).toMatchObject({ output: { inline: { padded: 1 } } })
    expect(await run(`echo '{"x":1}'; echo noise >&2`)).toMatchObject({ output: { inline: { x: 1 } } })
    for (const line of ["42", '"text"', "{broken", "done", "[1,2", "null"]) {
      expect(await run(`echo '{"before":1}'; echo '${line}'`), line).toMatchObject({
        state: "success",
        output: { inline: null },
      })
    }
  })

  const withFormat = (outputFormat: "text" | "lines" | "json", command: string) => run(command, { node: { outputFormat } })

  test("with output: text, all of stdout is the output, without the newlines at its end", async () => {
    expect(await withFormat("text", "echo 1.2.3")).toMatchObject({ state: "success", output: { inline: "1.2.3" } })
    expect(await withFormat("text", `echo '"ü" \\ x'; echo noise >&2; printf ' b\n\n'`)).toMatchObject({
      output: { inline: '"ü" \\ x\n b' },
    })
    expect(await withFormat("text", "true")).toMatchObject({ output: { inline: "" } })
    expect(await withFormat("text", `echo text; echo '{"a":1}' > $ORK_OUTPUT`)).toMatchObject({ output: { inline: { a: 1 } } })
  })

  test("with output: lines, the lines of stdout are the output", async () => {
    expect(await withFormat("lines", "printf 'a\n\nb c\r\nd\n'")).toMatchObject({ output: { inline: ["a", "", "b c", "d"] } })
    expect(await withFormat("lines", "echo")).toMatchObject({ output: { inline: [] } })
  })

  test("with output: json, all of stdout is JSON, otherwise the attempt fails", async () => {
    expect(await withFormat("json", `printf '{\n "a":\n 1 }\n\n'`)).toMatchObject({ output: { inline: { a: 1 } } })
    expect(await withFormat("json", "echo 42")).toMatchObject({ output: { inline: 42 } })
    for (const script of ["echo done", "true", `echo '{'; echo '}' >&2`]) {
      const { state, error } = await withFormat("json", script)
      expect([state, error], script).toEqual([
        "failed",
        expect.stringContaining("what it printed (output: json) is not valid JSON"),
      ])
    }
    const deferral = `{"ork_defer":{"callback":{}}}`
    expect(await withFormat("json", `echo '${deferral}'`)).toMatchObject({
      state: "failed",
      error: expect.stringContaining("it printed ork_defer"),
    })
  })

  test("an integer that would change on its way to other tasks fails the attempt", async () => {
    const many = `seq -f '"%.0f",' 20000`
    for (const script of [
      `echo '{"id": 9007199254740993}'`,
      `echo '{"id": 9007199254740993}' > $ORK_OUTPUT`,
      `(echo '['; ${many}; echo '9007199254740993]') > $ORK_OUTPUT`,
      `(echo '['; ${many}; echo '9007199254740993]') | tr -d '\\n'`,
    ]) {
      const { state, error } = await run(script)
      expect([state, error], script).toEqual([
        "failed",
        expect.stringContaining("contains the number 9007199254740993, which would change"),
      ])
    }
    expect(await run(`echo '{"id": "9007199254740993", "n": 9007199254740991}'`)).toMatchObject({
      output: { inline: { id: "9007199254740993", n: 9007199254740991 } },
    })
  })

  test("a large text is stored in its format", async () => {
    for (const [format, count] of [
      ["text", "seq 20000"],
      ["lines", "seq 20000"],
      ["json", "printf '['; seq -s, 20000; echo ']'"],
    ] as const) {
      const end = await withFormat(format, count)
      const { key } = end.output as { key: string }
      const value = JSON.parse(Buffer.from((await fixture().objects.get(key))!).toString()) as string | unknown[]
      expect(typeof value === "string" ? value.split("\n") : value.map(String), format).toEqual(
        Array.from({ length: 20_000 }, (_, i) => String(i + 1)),
      )
    }
    expect(await run("seq 20000", { node: { outputFormat: "text" }, maxOutputBytes: 5000 })).toMatchObject({
      state: "failed",
      error: expect.stringContaining("its standard output of"),
    })
  })

  test("a last line in pieces between lines of stderr is the output", async () => {
    const script = `printf '{"a":'; while ! grep -qs '{"a":' "$LOG"; do :; done; echo noise >&2; while ! grep -qs noise "$LOG"; do :; done; echo '1}'`
    const work = assignment(fixture().folder, { shell: script })
    const { objects } = fixture()
    if (!objects.localPath) return
    work.env = { LOG: objects.localPath(`${work.prefix}log`) }
    const { result, log } = launch(fixture(), work)
    expect(await result).toMatchObject({ state: "success", output: { inline: { a: 1 } } })
    expect(Buffer.from((await log.read()).bytes).toString()).toBe('{"a":noise\n1}\n')
  })

  test("a printed ork_defer is no deferral: only $ORK_OUTPUT counts, because a task may print what others wrote", async () => {
    const deferral = `{"ork_defer":{"callback":{}}}`
    const error = "it printed ork_defer: write it to $ORK_OUTPUT instead"
    expect(await run(`echo '${deferral}'`)).toMatchObject({ state: "failed", error })
    expect(await run(`echo '${deferral}' > $ORK_OUTPUT`)).toMatchObject({
      state: "success",
      output: { inline: JSON.parse(deferral) as unknown },
    })
  })

  test("a file that is not JSON fails the attempt", async () => {
    const end = await run("echo '{nope' > $ORK_OUTPUT")
    expect(end).toMatchObject({ state: "failed", exitCode: 0 })
    expect(end.error).toMatch(/\$ORK_OUTPUT is not valid JSON/)
    expect((await run("printf '\"\\377\"' > $ORK_OUTPUT")).error).toMatch(/not valid UTF-8/)
  })

  test("a large output becomes an object and is not inline", async () => {
    const { result, log } = go(`(printf '["'; head -c 1000000 /dev/zero | tr '\\0' x; printf '"]') > $ORK_OUTPUT`)
    const end = await result
    expect(end.state).toBe("success")
    const output = end.output as { key: string; bytes: number }
    expect(output.bytes).toBe(1_000_004)
    expect(await fixture().objects.size(output.key)).toBe(1_000_004)
    expect(await log.size()).toBe(0)
  })

  test("a large last line becomes an object too", async () => {
    const end = await run(`printf '["'; head -c 1000000 /dev/zero | tr '\\0' x; echo '"]'`)
    const output = end.output as { key: string; bytes: number }
    expect(end.state).toBe("success")
    expect(output.bytes).toBe(1_000_004)
    const stored = await fixture().objects.get(output.key)
    expect(JSON.parse(Buffer.from(stored!).toString())).toEqual(["x".repeat(1_000_000)])
  })

  test("a large output that is not JSON fails, and leaves no object", async () => {
    const work = assignment(fixture().folder, {
      shell: "(printf '['; head -c 200000 /dev/zero | tr '\\0' 1; printf ',') > $ORK_OUTPUT",
    })
    const end = await launch(fixture(), work).result
    expect(end.state).toBe("failed")
    expect(end.error).toMatch(/not valid JSON: (it ends too early|a number is too long)/)
    expect(await fixture().objects.list(work.prefix)).toEqual([])
  })

  test("an output above the limit fails with both sizes", async () => {
    const end = await run("head -c 300000 /dev/zero | tr '\\0' 1 > $ORK_OUTPUT", { maxOutputBytes: 100_000 })
    expect(end.state).toBe("failed")
    expect(end.error).toMatch(/output of 293 KiB is larger than the limit of 97.7 KiB/)
  })

  test("an output that cannot be read fails the attempt, and nothing else", async () => {
    const other = go("while [ ! -e done ]; do sleep 0.01; done; rm done")
    for (const [script, reason] of [
      ["mkdir $ORK_OUTPUT", "it is a folder"],
      ["mkfifo $ORK_OUTPUT", "it is not a regular file"],
      ["ln -s $ORK_OUTPUT $ORK_OUTPUT", "it is a symbolic link"],
      ["ln -s /etc/hostname $ORK_OUTPUT", "it is a symbolic link"],
    ]) {
      expect(await run(script!), script).toMatchObject({ state: "failed", error: `$ORK_OUTPUT cannot be read: ${reason}` })
    }
    expect(await run("rm $ORK_INPUT; mkdir $ORK_INPUT; touch $ORK_INPUT/x; touch done")).toMatchObject({ state: "success" })
    expect(await run("rm $ORK_INPUT; ln -s $ORK_INPUT $ORK_INPUT")).toMatchObject({ state: "success" })
    expect((await other.result).state).toBe("success")
  })

  test("an incomplete log fails the attempt, because it may lack the output", async () => {
    const { objects } = fixture()
    if (!objects.localPath) return
    const work = assignment(fixture().folder, { shell: `echo '{"a":1}'` })
    mkdirSync(objects.localPath(`${work.prefix}log`), { recursive: true })
    expect(await launch(fixture(), work).result).toMatchObject({ state: "failed", error: "its log is incomplete: EISDIR" })
    const removing = assignment(fixture().folder, { shell: `echo '{"a":1}'; while ! rm "$LOG" 2>/dev/null; do :; done` })
    removing.env = { LOG: objects.localPath(`${removing.prefix}log`) }
    expect(await launch(fixture(), removing).result).toMatchObject({ state: "failed", error: "its log is incomplete: ENOENT" })
  })

  test("a task that is too large for the helper fails alone", async () => {
    const other = go("echo up; while [ ! -e done ]; do sleep 0.01; done; rm done")
    await other.line("up")
    const end = await run("true", { secrets: ["x".repeat(20 << 20)] })
    expect(end).toMatchObject({ state: "failed", startedAt: null })
    expect(end.error).toMatch(/have \d+ bytes, and the limit is 16777216 \(E2BIG\)/)
    expect((await run("touch done")).state).toBe("success")
    expect((await other.result).state).toBe("success")
  })

  test("a failure has its exit code, and no output", async () => {
    const end = await run(`echo '{"a":1}' > $ORK_OUTPUT; exit 3`)
    expect(end).toMatchObject({ state: "failed", exitCode: 3, error: "exit code 3" })
    expect(end.output).toBeUndefined()
  })

  test("a process that was killed by a signal fails with its name", async () => {
    const end = await run("kill -SEGV $$")
    expect(end).toMatchObject({ state: "failed", error: "killed by SIGSEGV", usage: { signal: "SIGSEGV" } })
    expect(end.exitCode).toBeUndefined()
    expect(await run("kill -KILL $$")).toMatchObject({ state: "failed", error: "killed by SIGKILL" })
  })

  test("a missing program fails with the reason", async () => {
    const end = await run(["python9", "x.py"])
    expect(end).toMatchObject({ state: "failed", startedAt: null })
    expect(end.error).toBe("could not start: python9: not found in PATH (ENOENT)")
    expect((await run(["./no-such-file"])).error).toMatch(/could not start: .\/no-such-file: .*not found \(ENOENT\)/)
  })

  test("a missing working folder fails with the reason", async () => {
    const end = await run("true", { workingDir: "/no/such/folder" })
    expect(end.error).toBe("could not start: the working folder /no/such/folder does not exist (ENOENT)")
    expect((await run("true", { workingDir: "/etc/passwd" })).error).toMatch(
      /working folder .* cannot be entered: .*\(ENOTDIR\)/,
    )
  })

  test("an unknown user in run_as fails with the reason", async () => {
    const end = await run("true", { node: { runAs: "no-such-user-here" } })
    expect(end.error).toBe("could not start: run_as: there is no user no-such-user-here (ENOENT)")
  })

  test.runIf(process.geteuid?.() === 0)("run_as runs as that user, who can read the input and write the output", async () => {
    const { result, log } = go(`id -un; cat "$ORK_INPUT"; echo; echo '{"ok":true}' > $ORK_OUTPUT`, {
      node: { runAs: "nobody" },
      workingDir: "/",
    })
    expect(await result).toMatchObject({ state: "success", output: { inline: { ok: true } } })
    expect((await allLines(log)).map((line) => line.line)).toEqual(["nobody", '{"greeting":"hello"}'])
  })

  test.runIf(process.geteuid?.() === 0)("run_as can read a large input by its path", async () => {
    const input = "x".repeat(3 << 20)
    const { result, log } = go(`wc -c < "$ORK_INPUT"`, { node: { runAs: "nobody" }, workingDir: "/", input })
    expect((await result).state).toBe("success")
    expect((await allLines(log)).map(({ line }) => line)).toEqual([String(input.length + 2)])
  })

  test("invalid or too large variables fail the attempt before its start", async () => {
    const big = await run("true", { env: { BIG: "x".repeat(110_000) } })
    expect(big).toMatchObject({ state: "failed", startedAt: null, retryable: false })
    expect(big.error).toMatch(/environment variable BIG is 110000 bytes long/)
    expect((await run("true", { env: { NUL: "a\0b" } })).error).toMatch(/NUL contains a NUL character/)
    expect((await run(["echo", "a\0b"])).error).toMatch(/argument 1 .* NUL/)
  })

  test("a memory limit is enforced", async () => {
    const end = await run(["python3", "-c", "x = bytearray(300 << 20)"], { node: { resources: { memoryBytes: 64 << 20 } } })
    expect(end.state).toBe("failed")
    if (can.memoryKill) expect(end.error).toBe("killed: used more than 64 MiB of memory")
    expect(await run("true", { node: { resources: { memoryBytes: 64 << 20, cpu: 0.5 } } })).toMatchObject({ state: "success" })
  })

  test("200 concurrent tasks have their own outputs", async () => {
    const ends = await Promise.all(Array.from({ length: 200 }, (_, i) => run(`echo "[${i}]"`)))
    expect(ends.map((end) => end.output)).toEqual(Array.from({ length: 200 }, (_, i) => ({ inline: [i] })))
  })
}

const toCommand = (command: string | string[]): Assignment["command"] =>
  typeof command === "string" ? { shell: command } : { argv: command }

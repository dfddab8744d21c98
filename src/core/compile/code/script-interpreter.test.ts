import { execFileSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { temporaryFolder } from "../../../../test/support/ork.ts"
import { parseValue } from "../../../definition/parse.ts"
import type { CommandSpec } from "../../model/workflow.ts"
import { DEFAULT_INTERPRETER } from "../../model/workflow.ts"

type ShellSpec = Extract<CommandSpec, { shell: string }>

const parse = (task: object, defaults: object = {}) =>
  parseValue({ name: "w", params: { x: "a" }, defaults, tasks: { t: task } })

const compiled = (task: object, defaults?: object): ShellSpec => {
  const parsed = parse(task, defaults)
  expect(parsed).toMatchObject({ ok: true })
  return (parsed.ok ? parsed.workflow.nodes[0]!.command : undefined) as ShellSpec
}

const problems = (task: object): string[] => {
  const parsed = parse(task)
  return parsed.ok ? [] : parsed.problems.map(({ path, message }) => `${path}: ${message}`)
}

/** Runs the script of a task as an executor does. Returns what it prints, and its exit code. */
const run = (task: object, tmp = "/tmp"): { out: string; code: number } => {
  const { shell, interpreter = DEFAULT_INTERPRETER } = compiled(task)
  const [program, ...rest] = [...interpreter, shell]
  try {
    const env = { PATH: process.env["PATH"], TMPDIR: tmp, ORK_VALUE_0: "it's" }
    return { out: execFileSync(program, rest, { env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }), code: 0 }
  } catch (error) {
    const { stdout, status } = error as { stdout: string; status: number }
    return { out: stdout, code: status }
  }
}

describe("the interpreter of a text command", () => {
  it("is /bin/sh with -e, which is not stored", () => {
    expect(compiled({ command: "echo a" })).toEqual({ shell: "echo a", vars: [] })
    expect(compiled({ command: "echo a", shell: "sh" })).toEqual({ shell: "echo a", vars: [] })
  })

  it("stops at the first command that fails", () => {
    expect(run({ command: "echo a\nfalse\necho b" })).toEqual({ out: "a\n", code: 1 })
    expect(run({ command: "echo a\nfalse || true\necho b" })).toEqual({ out: "a\nb\n", code: 0 })
  })

  it("is bash with pipefail for shell: bash", () => {
    expect(run({ shell: "bash", command: "false | cat\necho b" })).toEqual({ out: "", code: 1 })
    expect(run({ shell: "bash", command: "[[ a == a ]] && a=(1 2) && echo ${#a[@]} ${{ params.x }}" }).out).toBe("2 it's\n")
  })

  it("is Python or Node for shell: python and shell: node", () => {
    expect(run({ shell: "python", command: "import sys\nprint(sys.version_info[0])" }).out).toBe("3\n")
    expect(run({ shell: "node", command: "console.log(typeof require('fs').statSync)" }).out).toBe("function\n")
  })

  it("is any program with arguments, after which the script follows", () => {
    expect(run({ shell: ["perl", "-we"], command: "print 6 * 7" }).out).toBe("42")
    expect(run({ shell: ["/usr/bin/env", "A=1", "bash", "-c"], command: "false; echo $A ${{ params.x }}" }).out).toBe(
      "1 it's\n",
    )
  })

  it("comes from defaults, and from the task first", () => {
    expect(compiled({ command: "echo a" }, { shell: "bash" }).interpreter).toEqual(["bash", "-e", "-o", "pipefail", "-c"])
    expect(compiled({ command: "echo a", shell: "sh" }, { shell: "bash" }).interpreter).toBeUndefined()
    expect(parse({ command: ["echo", "a"] }, { shell: "bash" })).toMatchObject({ ok: true })
  })

  it("is the one that the first line names", () => {
    expect(run({ command: "#!/bin/bash\nfalse | cat\necho b" })).toEqual({ out: "", code: 1 })
    expect(run({ command: "#!/bin/bash +e\nfalse\necho ${{ params.x }}" })).toEqual({ out: "it's\n", code: 0 })
    expect(run({ shell: "bash", command: "#!/usr/bin/env python3\nprint('''$a''')" }).out).toBe("$a\n")
    expect(run({ command: "#!/usr/bin/env -S perl -w\nprint 6 * 7" }).out).toBe("42")
  })

  it("gets the script as a file when it runs only files, and the file is removed", () => {
    const folder = temporaryFolder()
    expect(run({ command: '#!/usr/bin/awk -f\nBEGIN { print "it\'s awk" }' }, folder)).toEqual({ out: "it's awk\n", code: 0 })
    expect(run({ command: "#!/usr/bin/awk -f\nBEGIN { exit 3 }" }, folder).code).toBe(3)
    expect(readdirSync(folder)).toEqual([])
  })
})

describe("a problem is reported for", () => {
  it.each([
    [
      { shell: "python", command: "print(${{ params.x }})" },
      "tasks.t.command: ${{ params.x }} is part of what python3 runs as code",
    ],
    [{ command: "#!/usr/bin/awk -f\n${{ params.x }}" }, "tasks.t.command: ${{ params.x }} is part of what awk runs as code"],
    [
      { shell: ["ssh", "host"], command: "ls ${{ params.x }}" },
      "tasks.t.command: ${{ params.x }} is part of what ssh runs as code",
    ],
    [{ command: "#!\necho" }, "tasks.t.command: begins with #!, which must name a program"],
    [{ command: "#!/usr/bin/${{ params.x }}\n" }, "tasks.t.command: must not contain an expression in its first line"],
    [
      { shell: ["bash"], command: "ls" },
      'tasks.t.shell: must end with -c, because the script follows as the last argument: ["bash","-c"]',
    ],
    [{ shell: ["${{ params.x }}"], command: "ls" }, "tasks.t.shell.0: must not contain an expression"],
    [{ shell: "bash", command: ["ls"] }, "tasks.t.shell: runs a text only"],
    [{ shell: "fish", command: "ls" }, "tasks.t.shell: must be one of sh, bash, python, node"],
    [{ shell: "bash", executor: "http", url: "http://x" }, 'tasks.t.shell: the executor "http" has no field shell'],
  ])("%j", (task, expected) => {
    const [first, ...others] = problems(task)
    expect(first).toContain(expected)
    expect(others).toEqual([])
  })
})

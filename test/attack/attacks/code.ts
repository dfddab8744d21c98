// Values of a trigger that try to become code: every form of command that places a value, with values that would create a file.

import { execFile } from "node:child_process"
import { readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { ACCEPTED, hostileValues } from "../../support/hostile-values.ts"
import type { Attack } from "../attack.ts"
import type { Target } from "../target.ts"

const V = "${{ params.v }}"

/** Forms that must be rejected, or must not run the value. */
const FORMS: { [name: string]: string | string[] } = {
  "python3 -c": `python3 -c 'print("${V}")'`,
  "python3 -c as a list": ["python3", "-c", `print("${V}")`],
  "node -e": `node -e "console.log('${V}')"`,
  "node --eval=": ["node", `--eval=console.log('${V}')`],
  "perl -e": `perl -e "print '${V}'"`,
  "perl -ne": ["perl", "-ne", `print "${V}"`],
  awk: `echo | awk '{ print "${V}" }'`,
  sed: `echo x | sed "s/x/${V}/"`,
  "bash -ce": `bash -ce "echo ${V}"`,
  "sh -c -e": ["sh", "-c", "-e", `echo ${V}`],
  "sh -c": ["sh", "-c", `echo ${V}`],
  "env -S": `env -S "echo ${V}"`,
  "env sh -c": ["env", "A=1", "sh", "-c", `echo ${V}`],
  "flock -c": `flock /tmp/ork-attack.lock -c "echo ${V}"`,
  "script -c": `script -qc "echo ${V}" /dev/null`,
  "a pipe into sh": `echo "${V}" | sh`,
  "a here-string into bash": `bash <<< "${V}"`,
  "a here-document into sh": `sh <<EOF\n${V}\nEOF`,
  ". file": `. "${V}"`,
  eval: `eval "echo ${V}"`,
  "[[ -eq ]]": `[[ ${V} -eq 1 ]]`,
  "[[ -eq ]] in bash -c": `bash -c "[[ ${V} -eq 1 ]]"`,
  "xargs sh -c": `echo "${V}" | xargs -I{} sh -c 'echo {}'`,
  "find -exec sh -c": `find . -maxdepth 0 -exec sh -c "echo ${V}" ';'`,
  "timeout sh -c": ["timeout", "5", "sh", "-c", `echo ${V}`],
  "nice bash -lc": ["nice", "bash", "-lc", `echo ${V}`],
  "a tar option": ["tar", "cf", "/dev/null", V, "/etc/hostname"],
  "a value as the command": [V],
  "ordinary argument": `printf '%s\\n' ${V}`,
  "ordinary option": `printf '%s\\n' --day=${V}`,
  "quoted argument": `printf '%s\\n' "${V}"`,
  "argument list": ["printf", "%s\\n", V],
  "single quotes": `printf '%s\\n' '${V}'`,
  "inside a substitution": `printf '%s\\n' "$(printf %s ${V})"`,
  "inside arithmetic": `echo $(( ${V} ))`,
  "redirection target": `echo x > ${V}`,
}

/** Variables that make programs load code. */
const VARIABLES = ["LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "PYTHONPATH", "PERL5LIB", "PATH", "PYTHONSTARTUP", "ENV"]

/** Values that would create `file`. */
const hostile = (file: string): string[] => {
  const touch = `touch ${file}`
  return [
    `$(${touch})`,
    `\`${touch}\``,
    `; ${touch} #`,
    `"; ${touch}; "`,
    `'; ${touch}; '`,
    `"); import os; os.system("${touch}"); ("`,
    `'); require('child_process').execSync('${touch}'); ('`,
    `'; system("${touch}"); '`,
    `" ; system("${touch}") ; "`,
    `/e;s/.*/${touch.replaceAll("/", "\\/")}/e;#`,
    `\n${touch}\n`,
    `a[$(${touch})]`,
    `--use-compress-program=${touch}`,
    `--checkpoint-action=exec=${touch}`,
    `| ${touch}`,
    `&& ${touch}`,
    `\${IFS}$(${touch})`,
    `EOF\n${touch}\n`,
    file,
  ]
}

const created = (target: Target): string | null => {
  const files = readdirSync(target.canaries)
  for (const file of files) rmSync(join(target.canaries, file))
  return files.length === 0 ? null : `a value of a trigger created a file (${files[0]})`
}

const attackForm = async (target: Target, tasks: object, isExpected: (value: string) => boolean): Promise<string | null> => {
  const workflow = { name: "values", params: { v: { type: "string" } }, tasks }
  if ((await target.deploy(workflow)) !== null) return null
  const values = hostile(join(target.canaries, "file"))
  await Promise.all(values.filter((value) => !isExpected(value)).map((v) => target.run("values", { v })))
  return created(target)
}

/** Values per accepted form that go through a server. */
const PER_FORM = 60

/** Here-strings are of bash alone. */
const FORMS_OF_SH = ACCEPTED.filter((form) => !form.includes("<<<"))

/** One task per accepted form, each with an instance per value. */
const acceptedForms = () =>
  Object.fromEntries(
    FORMS_OF_SH.map((form, i) => [
      `form_${i}`,
      {
        command: form.replaceAll("params.x", "item"),
        foreach: `\${{ params.values }}`,
        timeout: "30s",
      },
    ]),
  )

const ROOT = join(import.meta.dirname, "../../..")

/** The test of values in shells alone, which takes every value through every accepted form. It needs no server. */
export const hostileValueTest = {
  name: "value as code: hostile values in every accepted form create no file",
  async run(count: number): Promise<string | null> {
    const args = ["node_modules/vitest/vitest.mjs", "run", "src/core/compile/code/values-as-code.test.ts", "--maxWorkers=1"]
    const env = { ...process.env, NO_COLOR: "1", ORK_HOSTILE_VALUES: String(count) }
    return await new Promise((resolve) => {
      execFile(process.execPath, args, { cwd: ROOT, env, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
        resolve(
          error === null
            ? null
            : `${stdout}${stderr}`
                .split("\n")
                .filter((line) => line.includes("Error"))
                .join("; "),
        )
      })
    })
  },
}

const QUICK = new Set(["python3 -c", "a pipe into sh", "eval", "a tar option", "ordinary argument", "quoted argument"])

export const codeAttacks: Attack[] = [
  {
    name: `value as code: ${PER_FORM} hostile values in each of ${FORMS_OF_SH.length} accepted forms, through the server`,
    flood: true,
    async run(target) {
      const params = { values: { type: "array" } }
      const rejected = await target.deploy({ name: "accepted", params, tasks: acceptedForms() })
      if (rejected !== null) throw new Error(rejected)
      const values = hostileValues(PER_FORM, join(target.canaries, "file"), Math.floor(performance.now()))
      const run = await target.run("accepted", { values })
      if (!("id" in run) || run.status === "running") throw new Error(`the values were not run: ${JSON.stringify(run)}`)
      return created(target)
    },
  },
  ...Object.entries(FORMS).map(([name, command]): Attack => ({
    name: `value as code: ${name}`,
    quick: QUICK.has(name),
    flood: true,
    // The author of a redirection lets the value name the file.
    run: (target) => attackForm(target, { a: { command } }, (value) => name === "redirection target" && value.startsWith("/")),
  })),
  ...VARIABLES.map((variable): Attack => ({
    name: `value as code: ${variable}`,
    quick: variable === "LD_PRELOAD",
    async run(target) {
      const workflow = {
        name: "variables",
        params: { v: { type: "string" } },
        tasks: { a: { command: "env", env: { [variable]: V } } },
      }
      return (await target.deploy(workflow)) === null ? `a definition may set ${variable} to a value of a trigger` : null
    },
  })),
]

// Converts a crontab: one workflow of one task for each entry, with the meaning that cron gives it.

import type { Duration, TaskDefinition, WorkflowDefinition } from "../core/model/definition.ts"
import { type Imported, literalText, UniqueNames } from "./imported.ts"

export interface CrontabOptions {
  /** Time zone of the machine that the crontab comes from. */
  timezone: string
  /** Folder that cron starts commands in, unless the crontab sets HOME. */
  home: string
  /** Entries have a user before the command, as in /etc/crontab. */
  hasUsers: boolean
}

/** cron has no limit; Ork's default of one hour would stop long tasks. */
const TIMEOUT: Duration = "7d"

const NICKNAMES: Record<string, string> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
}

const ASSIGNMENT = /^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/
const FIELD = "[0-9A-Za-z*/,~-]+"
const ENTRY = new RegExp(`^(@[a-z]+|(?:${FIELD}\\s+){4}${FIELD})\\s+(.+)$`)
const SHELL_BY_PATH: Record<string, TaskDefinition["shell"]> = { sh: "sh", bash: "bash" }

interface Settings {
  env: Record<string, string>
  timezone: string
  home: string
  shell: string
}

export const importCrontab = (text: string, options: CrontabOptions): Imported => {
  const crontab = new Crontab(options)
  for (const [index, written] of text.split(/\r?\n/).entries()) crontab.add(index + 1, written.trim())
  return crontab.imported
}

class Crontab {
  readonly imported: Imported = { workflows: [], problems: [] }
  readonly #names = new UniqueNames("job")
  readonly #settings: Settings
  readonly #hasUsers: boolean
  /** Comments directly above the next line. */
  #comments: string[] = []

  constructor({ timezone, home, hasUsers }: CrontabOptions) {
    this.#settings = { env: {}, timezone, home, shell: "/bin/sh" }
    this.#hasUsers = hasUsers
  }

  add(line: number, written: string): void {
    if (written.startsWith("#")) {
      const comment = written.replace(/^#+\s*/, "")
      // A comment with an entry is an entry that somebody has switched off.
      this.#comments = comment === "" || ENTRY.test(comment) ? [] : [...this.#comments, comment]
      return
    }
    const problem = written === "" ? null : this.#convert(line, written)
    if (problem !== null) this.imported.problems.push({ line, message: problem })
    this.#comments = []
  }

  /** Returns why the line cannot be converted, or null. */
  #convert(line: number, written: string): string | null {
    const assignment = ASSIGNMENT.exec(written)
    if (assignment !== null) return applySetting(this.#settings, assignment[1]!, unquoted(assignment[2]!))
    const entry = ENTRY.exec(written)
    if (entry === null) return "is neither an entry (five fields and a command) nor NAME=value"
    const [when, rest] = [entry[1]!, entry[2]!]
    if (when === "@reboot") return "@reboot is not a schedule; start such a program as a service"
    const cron = when.startsWith("@") ? NICKNAMES[when] : when.replaceAll(/\s+/g, " ")
    if (cron === undefined) return `there is no schedule ${when}`
    const [user, command] = this.#hasUsers ? splitUser(rest) : [null, rest]
    const { shell, stdin } = splitInput(command)
    if (shell === "") return "has no command"
    const definition: WorkflowDefinition = {
      name: this.#names.add(nameOf(shell)),
      ...(this.#comments.length > 0 && { description: this.#comments.join(" ") }),
      // cron starts an entry although an earlier one still runs.
      schedule: { cron, timezone: this.#settings.timezone, overlap: "allow" },
      tasks: { job: taskOf(this.#settings, shell, stdin, user) },
    }
    this.imported.workflows.push({ definition, line, source: written })
    return null
  }
}

const applySetting = (settings: Settings, name: string, value: string): string | null => {
  switch (name) {
    case "CRON_TZ":
    case "TZ":
      settings.timezone = value
      return null
    case "HOME":
      settings.home = value
      return null
    case "SHELL":
      settings.shell = value
      return null
    case "MAILTO":
    case "MAILFROM":
      return value === "" ? null : `${name}=${value}: add notify to the workflows, or an on_failure hook`
    default:
      settings.env = { ...settings.env, [name]: value }
      return null
  }
}

const unquoted = (value: string): string => /^(["'])(.*)\1$/.exec(value)?.[2] ?? value

const splitUser = (rest: string): [string, string] => {
  const at = rest.search(/\s/)
  return at < 0 ? [rest, ""] : [rest.slice(0, at), rest.slice(at).trim()]
}

/**
 * Splits off standard input: in a crontab, the first `%` begins the standard input of the command, and each further one is a line break
 * in it; `\%` is a `%`.
 */
const splitInput = (command: string): { shell: string; stdin: string | null } => {
  const [shell, ...lines] = command.split(/(?<!\\)%/).map((part) => part.replaceAll("\\%", "%"))
  return { shell: shell!.trim(), stdin: lines.length === 0 ? null : lines.join("\n") }
}

const taskOf = ({ env, home, shell }: Settings, command: string, stdin: string | null, user: string | null): TaskDefinition => {
  const text = stdin === null ? command : `{ ${command}; } <<'END_OF_INPUT'\n${stdin}\nEND_OF_INPUT`
  return {
    command: literalText(text),
    ...shellOf(shell, text),
    working_dir: home,
    timeout: TIMEOUT,
    ...(Object.keys(env).length > 0 && {
      env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, literalText(value)])),
    }),
    ...(user !== null && { run_as: user }),
  }
}

/**
 * Returns the shell of a command. cron's shell goes on after a command that fails; Ork's stops, which matters where several commands
 * follow each other.
 */
const shellOf = (shell: string, command: string): Pick<TaskDefinition, "shell"> => {
  if (/[;\n]/.test(command)) return { shell: [shell, "-c"] }
  const known = SHELL_BY_PATH[shell.slice(shell.lastIndexOf("/") + 1)]
  return known === "sh" ? {} : { shell: known ?? [shell, "-c"] }
}

/** Programs that start another one: the name comes from that one. */
const WRAPPERS = new Set(
  "cd sudo nice ionice nohup env exec time timeout flock chronic bash sh zsh python python3 perl ruby node php java npx uv".split(
    " ",
  ),
)

/** Names the entry after the first program in it that is not a wrapper. */
const nameOf = (command: string): string => {
  const words = command.split(/[\s;&|()<>]+/).map((word) => word.replaceAll(/^["']|["']$/g, ""))
  const isName = (word: string, i: number): boolean =>
    word !== "" &&
    !word.startsWith("-") &&
    !/^\w+=/.test(word) &&
    !/^[\d.]+[smhd]?$/.test(word) &&
    !WRAPPERS.has(baseName(word)) &&
    words[i - 1] !== "cd" &&
    !word.endsWith(".lock")
  return baseName(words.find(isName) ?? "").replace(/\.(?:sh|bash|py|js|ts|mjs|pl|rb|php|jar)$/, "")
}

const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

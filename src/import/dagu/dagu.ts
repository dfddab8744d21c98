// Converts a Dagu file: one workflow per YAML document. Fields may be written in camelCase or snake_case. What has no counterpart, or
// would mean something else, becomes a problem of its line.

import { type Document, isMap, isSeq, LineCounter, parseAllDocuments, type YAMLMap } from "yaml"
import type { EnvDefinition, RetryDefinition, TaskDefinition, WorkflowDefinition } from "../../core/model/definition.ts"
import type { Json } from "../../core/values/json.ts"
import {
  camelCase,
  type Field,
  FieldReader,
  type Fields,
  fieldTaker,
  isObject,
  listOf,
  optional,
  plain,
  secondsOf,
  textOf,
  toText,
} from "./fields.ts"
import { convertMails, type DaguMails } from "./mails.ts"
import { type Imported, type ImportProblem, literalText, notImported, UniqueNames } from "../imported.ts"

export interface DaguOptions {
  /** Name of a workflow without a `name`: that of the file. */
  name: string
  /** Time zone of the machine that Dagu runs on. */
  timezone: string
}

/** Dagu has no limit unless `timeoutSec` is set; Ork's default of one hour would stop long tasks. */
const TIMEOUT = "7d"

export const importDagu = (text: string, options: DaguOptions): Imported => {
  const lines = new LineCounter()
  const documents = parseAllDocuments(text, { lineCounter: lines })
  if (!Array.isArray(documents)) return notImported(1, "the file is empty")
  const imported: Imported = { workflows: [], problems: [] }
  const names = new UniqueNames(options.name)
  for (const document of documents) {
    const [broken] = document.errors
    if (broken !== undefined) imported.problems.push({ line: lines.linePos(broken.pos[0]).line, message: broken.message })
    else new Dag(document, lines, options, names).addTo(imported)
  }
  return imported
}

interface Step {
  name: string
  /** The whole step as JSON, in which variables are searched for. */
  text: string
  fields: Fields
  line: number
  /** Names of the steps that must end first. */
  upstream: string[]
}

const HOOKS: Record<string, "on_success" | "on_failure" | "on_cancel" | "on_exit"> = {
  success: "on_success",
  failure: "on_failure",
  abort: "on_cancel",
  cancel: "on_cancel",
  exit: "on_exit",
}

class Dag {
  readonly #fields: FieldReader
  readonly #options: DaguOptions
  readonly #root: YAMLMap | null
  readonly #names: UniqueNames
  readonly #problems: ImportProblem[] = []
  /** Expressions that give the variables of commands their values, by name. */
  readonly #variables = new Map<string, string>()
  /** Names of variables that a step's output sets, with the step. */
  readonly #outputs = new Map<string, string>()
  #mails: DaguMails | null = null

  constructor(document: Document.Parsed, lines: LineCounter, options: DaguOptions, names: UniqueNames) {
    this.#fields = new FieldReader(lines)
    this.#options = options
    this.#names = names
    this.#root = isMap(document.contents) ? document.contents : null
  }

  addTo({ workflows, problems }: Imported): void {
    if (this.#root === null) {
      problems.push({ line: 1, message: "a workflow must be a map with steps" })
      return
    }
    const fields = this.#fields.fieldsOf(this.#root)
    const definition = this.#convert(fields)
    if (definition !== null) {
      const line = this.#fields.lineOf(this.#root)
      workflows.push({ definition, line, source: `Dagu workflow ${definition.name}` })
    }
    problems.push(...this.#problems)
  }

  #convert(fields: Fields): WorkflowDefinition | null {
    const take = fieldTaker(fields)
    const name = this.#names.add(textOf(take("name")) ?? this.#options.name)
    const params = this.#params(take("params"))
    const env = this.#env(take("env"))
    this.#mails = convertMails(
      { mailOn: take("mailOn"), errorMail: take("errorMail"), infoMail: take("infoMail"), smtp: take("smtp") },
      (line, message) => this.#problem(line, message),
    )
    const steps = this.#steps(take("steps"), textOf(take("type")) ?? null)
    const hooks = this.#hooks(take("handlerOn") ?? take("handlers"))
    const timeout = secondsOf(take("timeoutSec"))
    const workingDir = textOf(take("workingDir"))
    const shell = textOf(take("shell"))
    const queue = textOf(take("queue"))
    const concurrency = take("maxActiveSteps")?.value
    const maxActiveRuns = take("maxActiveRuns")?.value
    const definition: WorkflowDefinition = {
      name,
      ...optional("description", textOf(take("description"))),
      ...optional("tags", listOf(take("tags") ?? take("labels"))),
      ...this.#schedule(take("schedule")),
      ...(Object.keys(params).length > 0 && { params }),
      ...(Object.keys(env).length > 0 && { env }),
      ...(typeof concurrency === "number" && concurrency > 0 && { concurrency }),
      ...(typeof maxActiveRuns === "number" && maxActiveRuns > 0 && { max_active_runs: maxActiveRuns }),
      ...optional("timeout", timeout),
      ...(this.#mails.notify.length > 0 && { notify: this.#mails.notify }),
      defaults: {
        timeout: TIMEOUT,
        ...optional("working_dir", workingDir),
        ...optional("shell", shell === undefined ? undefined : shellOf(shell)),
        ...optional("queue", queue),
      },
      ...hooks,
      tasks: steps,
    }
    for (const [field, { line }] of fields) this.#problem(line, `${field} has no counterpart and is left out`)
    return Object.keys(steps).length === 0 ? null : definition
  }

  #problem(line: number, message: string): void {
    this.#problems.push({ line, message })
  }

  // -- root fields -----------------------------------------------------------------------------------------------------------------

  #schedule(field: Field | undefined): Pick<WorkflowDefinition, "schedule"> {
    if (field === undefined) return {}
    const { value, line } = field
    const starts = isObject(value) ? value["start"] : value
    if (isObject(value)) {
      for (const kind of Object.keys(value)) {
        if (kind !== "start") this.#problem(line, `schedule.${kind} has no counterpart and is left out`)
      }
    }
    const crons = (Array.isArray(starts) ? starts : [starts]).filter((each) => typeof each === "string")
    const schedules = crons.map((written) => {
      const [, zone, cron] = /^(?:CRON_TZ|TZ)=(\S+)\s+(.*)$/.exec(written) ?? [null, this.#options.timezone, written]
      return { cron: cron, timezone: zone }
    })
    if (schedules.length === 0) return {}
    return { schedule: schedules.length === 1 ? schedules[0]! : schedules }
  }

  /** Reads the params, which Dagu passes to commands as variables. */
  #params(field: Field | undefined): Record<string, Json> {
    const params: Record<string, Json> = {}
    for (const [name, value] of this.#assignments(field, "params")) {
      if (/^\d+$/.test(name)) {
        this.#problem(field!.line, `the positional param ${JSON.stringify(value)} is left out: give it a name`)
        continue
      }
      params[name] = value === null ? "" : this.#plainText(field!.line, `param ${name}`, toText(value))
      this.#variables.set(name, `params.${name}`)
    }
    return params
  }

  #env(field: Field | undefined): EnvDefinition {
    const env: EnvDefinition = {}
    for (const [name, expression] of this.#variables) env[name] = `\${{ ${expression} }}`
    for (const [name, value] of this.#assignments(field, "env")) env[name] = this.#value(field!.line, name, toText(value ?? ""))
    return env
  }

  /** Replaces `${NAME}` of params by expressions: Ork does not expand variables in values. */
  #value(line: number, name: string, text: string): string {
    const replaced = literalText(text).replaceAll(/\$\{(\w+)\}|\$([A-Za-z_]\w*)/g, (whole, braced?: string, bare?: string) => {
      const expression = this.#variables.get((braced ?? bare)!)
      return expression === undefined ? whole : `\${{ ${expression} }}`
    })
    return this.#plainText(line, name, replaced)
  }

  /** Reports what Dagu would expand in a value. */
  #plainText(line: number, what: string, text: string): string {
    const rest = text.replaceAll(/\$\{\{.*?\}\}/g, "")
    if (/`|\$\(|\$\{?[A-Za-z_]/.test(rest))
      this.#problem(line, `${what} contains a variable or a command, which Ork takes as text`)
    return text
  }

  /** Entries of `{ A: 1 }`, `[{ A: 1 }, "B=2"]` or `"A=1 B=2"`; a value without a name has its position as the name. */
  #assignments(field: Field | undefined, what: string): [string, Json][] {
    if (field === undefined || field.value === null) return []
    const { value, line } = field
    if (isObject(value)) return Object.entries(value)
    const words = typeof value === "string" ? (value.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? []) : value
    if (!Array.isArray(words)) {
      this.#problem(line, `${what} is neither a map, a list nor a text`)
      return []
    }
    return words.flatMap((each, i): [string, Json][] => {
      if (isObject(each))
        return typeof each["name"] === "string" ? [[each["name"], each["default"] ?? null]] : Object.entries(each)
      const [, name, assigned] = /^([A-Za-z_]\w*)=(.*)$/s.exec(toText(each)) ?? []
      return [[name ?? String(i + 1), (assigned ?? toText(each)).replaceAll(/^["']|["']$/g, "")]]
    })
  }

  #hooks(field: Field | undefined): Partial<WorkflowDefinition> {
    if (field === undefined || !isObject(field.value)) return {}
    const hooks: Partial<WorkflowDefinition> = {}
    for (const [event, value] of Object.entries(field.value)) {
      const hook = HOOKS[event]
      if (hook === undefined || !isObject(value)) {
        this.#problem(field.line, `the handler ${event} has no counterpart and is left out`)
        continue
      }
      const fields: Fields = new Map(
        Object.entries(value).map(([name, each]) => [camelCase(name), { value: each, line: field.line }]),
      )
      const task = this.#task({ name: event, text: JSON.stringify(value), fields, line: field.line, upstream: [] }, [])
      if (task !== null) hooks[hook] = [task]
    }
    return hooks
  }

  // -- steps -----------------------------------------------------------------------------------------------------------------------

  #steps(field: Field | undefined, type: string | null): Record<string, TaskDefinition> {
    const node = this.#root!.get("steps", true) as unknown
    if (field === undefined || !(isSeq(node) || isMap(node))) {
      this.#problem(field?.line ?? 1, "has no steps")
      return {}
    }
    const names = new UniqueNames("step", /[^A-Za-z0-9_-]+/g)
    const given = new Map<string, string>()
    const steps: Step[] = []
    const isChain = type === "chain"
    const add = (item: unknown, name: string | null, upstream: string[]): string => {
      const fields: Fields = isMap(item)
        ? this.#fields.fieldsOf(item)
        : new Map([["run", { value: plain(item), line: this.#fields.lineOf(item) }]])
      const take = fieldTaker(fields)
      const [id, title] = [textOf(take("id")), textOf(take("name"))]
      const own = names.add(name ?? title ?? id ?? `step${steps.length + 1}`)
      for (const each of [id, title, name]) if (typeof each === "string") given.set(each, own)
      steps.push({ name: own, text: JSON.stringify(plain(item)), fields, line: this.#fields.lineOf(item), upstream })
      return own
    }
    let previous: string[] = []
    if (isMap(node)) for (const { key, value } of node.items) add(value, toText(plain(key)), [])
    else {
      for (const item of node.items) {
        const upstream = isChain ? previous : []
        previous = isSeq(item) ? item.items.map((each) => add(each, null, upstream)) : [add(item, null, upstream)]
      }
    }
    for (const step of steps) step.upstream.push(...this.#depends(step, given))
    for (const { name, fields } of steps) {
      const output = fields.get("output")
      const variable = isObject(output?.value) ? output.value["name"] : output?.value
      if (typeof variable === "string") this.#outputs.set(variable.replace(/^\$\{?|\}$/g, ""), name)
    }
    const tasks = steps.map((step): [string, TaskDefinition | null] => [step.name, this.#task(step, steps)])
    return Object.fromEntries(tasks.filter((each): each is [string, TaskDefinition] => each[1] !== null))
  }

  #depends({ fields, line }: Step, given: ReadonlyMap<string, string>): string[] {
    const depends = fieldTaker(fields)("depends")?.value ?? []
    return (Array.isArray(depends) ? depends : [depends]).flatMap((each) => {
      const name = given.get(toText(each))
      if (name === undefined) this.#problem(line, `depends on the step ${JSON.stringify(each)}, which does not exist`)
      return name ?? []
    })
  }

  #task(step: Step, steps: readonly Step[]): TaskDefinition | null {
    const { fields } = step
    const take = fieldTaker(fields)
    const run = this.#work(step)
    if (run === null) return null
    const task: TaskDefinition = {
      ...optional("description", textOf(take("description"))),
      ...(step.upstream.length > 0 && { depends_on: [...new Set(step.upstream)] }),
      ...run,
      ...optional("working_dir", textOf(take("dir") ?? take("workingDir"))),
      ...optional("timeout", secondsOf(take("timeoutSec"))),
      ...this.#retry(take("retryPolicy")),
      ...this.#repeat(take("repeatPolicy"), step.name, run.command !== undefined),
      ...this.#continueOn(take("continueOn")),
      ...this.#mails?.ofStep(take("mailOnError")),
      ...(take("output") !== undefined && { output: "text" }),
      ...this.#stepEnv(take("env"), step, steps),
    }
    for (const [field, { line: at }] of fields)
      this.#problem(at, `${field} of the step ${step.name} has no counterpart and is left out`)
    return task
  }

  /** Returns what the step runs. Reports a step that has no counterpart, and returns null. */
  #work({ name, fields, line }: Step): Pick<TaskDefinition, "command" | "shell" | "executor" | "workflow" | "input"> | null {
    const take = fieldTaker(fields)
    const executor = take("executor") ?? take("type") ?? take("action")
    if (executor !== undefined && !["shell", "command"].includes(executorName(executor.value))) {
      this.#problem(executor.line, `the step ${name} uses the executor ${executorName(executor.value)}, which is not converted`)
      return null
    }
    const call = textOf(take("call"))
    if (call !== undefined) {
      const input = Object.fromEntries(this.#assignments(take("params"), "params").map(([key, value]) => [key, value ?? ""]))
      return { executor: "workflow", workflow: call, ...(Object.keys(input).length > 0 && { input }) }
    }
    const command = take("run") ?? take("command")
    const script = textOf(take("script"))
    const shell = textOf(take("shell"))
    const args = listOf(take("args")) ?? []
    if (script !== undefined) {
      const interpreter = textOf(command) ?? shell ?? "sh"
      return { command: literalText(script), ...optional("shell", shellOf(interpreter)) }
    }
    if (command === undefined) {
      this.#problem(line, `the step ${name} has nothing that Ork can run`)
      return null
    }
    if (Array.isArray(command.value)) {
      const words = command.value.map((word) => toText(word))
      // A list with whole commands is a script; a list of words is one command.
      if (words.some((word) => /\s/.test(word)) && !words[0]!.includes("/"))
        return {
          command: literalText(words.join("\n")),
          ...optional("shell", shell === undefined ? undefined : shellOf(shell)),
        }
      return { command: words.map(literalText) }
    }
    if (typeof command.value !== "string") {
      this.#problem(line, `the command of the step ${name} is not a text`)
      return null
    }
    const text = [command.value, ...args].join(" ")
    return { command: literalText(text), ...optional("shell", shell === undefined ? undefined : shellOf(shell)) }
  }

  #retry(field: Field | undefined): Pick<TaskDefinition, "retry" | "retry_on"> {
    if (field === undefined || !isObject(field.value)) return {}
    const policy = Object.fromEntries(Object.entries(field.value).map(([name, value]) => [camelCase(name), value]))
    const { limit, intervalSec, backoff, maxIntervalSec, exitCode, ...rest } = policy
    for (const name of Object.keys(rest)) this.#problem(field.line, `retryPolicy.${name} has no counterpart and is left out`)
    const retry: RetryDefinition = {
      max_attempts: Math.min(100, Number(limit ?? 0) + 1),
      backoff: backoff === true || typeof backoff === "number" ? "exponential" : "fixed",
      ...(intervalSec !== undefined && { base_delay: Number(intervalSec) }),
      ...(maxIntervalSec !== undefined && { max_delay: Number(maxIntervalSec) }),
    }
    if (typeof limit === "string")
      this.#problem(field.line, `retryPolicy.limit is ${JSON.stringify(limit)}; Ork needs a number`)
    const codes = exitCode === undefined ? [] : [exitCode].flat().filter((code) => typeof code === "number")
    return { retry, ...(codes.length > 0 && { retry_on: codes }) }
  }

  /** Makes a command that is repeated until its exit code is 0 a task that waits. */
  #repeat(field: Field | undefined, step: string, hasCommand: boolean): Pick<TaskDefinition, "executor" | "every" | "timeout"> {
    if (field === undefined) return {}
    const given = isObject(field.value) ? field.value : {}
    const policy = Object.fromEntries(Object.entries(given).map(([name, value]) => [camelCase(name), value]))
    const { repeat, exitCode, intervalSec, limit, ...rest } = policy
    const waits = hasCommand && repeat === "until" && [exitCode].flat().every((code) => code === 0)
    if (!waits || Object.keys(rest).length > 0) {
      this.#problem(field.line, `repeatPolicy of the step ${step} has no counterpart and is left out`)
      return {}
    }
    const every = typeof intervalSec === "number" && intervalSec > 0 ? intervalSec : 1
    return { executor: "wait", every, ...(typeof limit === "number" && limit > 0 && { timeout: limit * every }) }
  }

  #continueOn(field: Field | undefined): Pick<TaskDefinition, "continue_on_error"> {
    if (field === undefined) return {}
    const { value, line } = field
    if (value === "failed" || value === "failure") return { continue_on_error: true }
    // Ork continues after a step that its condition skipped.
    if (value === "skipped" || !isObject(value)) return {}
    for (const name of Object.keys(value)) {
      if (!["failure", "failed", "skipped", "markSuccess", "mark_success"].includes(name))
        this.#problem(line, `continueOn.${name} has no counterpart and is left out`)
    }
    return value["failure"] === true || value["failed"] === true ? { continue_on_error: true } : {}
  }

  /** Variables of the step, and those that steps before it set by `output`. */
  #stepEnv(field: Field | undefined, step: Step, steps: readonly Step[]): Pick<TaskDefinition, "env"> {
    const env: EnvDefinition = {}
    const before = stepsBefore(step, steps)
    for (const [variable, from] of this.#outputs) {
      if (from === step.name || !before.has(from)) continue
      if (new RegExp(`\\$\\{?${variable}\\b`).test(step.text)) env[variable] = `\${{ tasks[${JSON.stringify(from)}].output }}`
    }
    for (const [name, value] of this.#assignments(field, "env")) env[name] = this.#value(field!.line, name, toText(value ?? ""))
    return Object.keys(env).length === 0 ? {} : { env }
  }
}

/** Returns the names of all steps that must end before a step. */
const stepsBefore = (step: Step, steps: readonly Step[]): Set<string> => {
  const before = new Set<string>()
  const visit = ({ upstream }: Step): void => {
    for (const name of upstream) {
      if (before.has(name)) continue
      before.add(name)
      visit(steps.find((each) => each.name === name)!)
    }
  }
  visit(step)
  return before
}

const executorName = (value: Json): string => (isObject(value) ? toText(value["type"] ?? "") : toText(value))

/** Returns the shell for an interpreter that Dagu starts with the script. */
const shellOf = (interpreter: string): TaskDefinition["shell"] => {
  const words = interpreter.trim().split(/\s+/)
  const program = words[0]!.slice(words[0]!.lastIndexOf("/") + 1)
  if (words.length === 1 && (program === "sh" || program === "bash")) return program
  if (/^python[\d.]*$/.test(program) && words.length === 1) return "python"
  if (program === "node" && words.length === 1) return "node"
  return words.at(-1) === "-c" ? words : [...words, "-c"]
}

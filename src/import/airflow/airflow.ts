// Converts an Airflow file: one workflow per DAG, and a Python file with the functions that its tasks call.

import { isDeepStrictEqual } from "node:util"
import type {
  NotifyDefinition,
  RetryDefinition,
  ScheduleDefinition,
  TaskDefinition,
  WorkflowDefinition,
} from "../../core/model/definition.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { RunWhen } from "../../core/model/workflow.ts"
import { type Imported, type ImportProblem, literalText, UniqueNames } from "../imported.ts"
import { convertJinja } from "./jinja.ts"
import { sensorWork } from "./sensors.ts"
import { type AirflowDag, type AirflowFile, type AirflowTask, isObject, readAirflow, secondsOf, sourceOf } from "./read.ts"

export const importAirflow = async (text: string): Promise<Imported> => {
  const file = await readAirflow(text)
  const imported: Imported = { workflows: [], problems: [...file.problems] }
  const unique = new UniqueNames("dag")
  const names = new Map(file.dags.map((dag) => [dag, unique.add(dag.id)]))
  for (const dag of file.dags) new DagImport(file, dag, names).addTo(imported)
  if (file.dags.length === 0 && file.problems.length === 0) imported.problems.push({ line: 1, message: "has no DAG" })
  return imported
}

/** Arguments without a meaning for Ork, or whose value is used elsewhere. */
const IGNORED_DAG_ARGS = new Set([
  "default_args",
  "owner",
  "start_date",
  "doc_md",
  "render_template_as_native_obj",
  "template_searchpath",
])
const IGNORED_TASK_ARGS = new Set([
  "owner",
  "start_date",
  "do_xcom_push",
  "weight_rule",
  "$function",
  "$input",
  "email_on_retry",
  "inlets",
  "outlets",
])

/** Arguments of the operators that call a function. */
const CALL_ARGS = ["python_callable", "op_kwargs", "op_args", "provide_context"]
/** Arguments that select the Python of a function. */
const PYTHON_ARGS = ["requirements", "python", "python_version", "system_site_packages", "use_dill", "serializer"]

const RULES: Record<string, RunWhen> = {
  all_success: "all_success",
  all_failed: "all_failed",
  all_done: "all_done",
  one_failed: "any_failed",
  one_success: "any_success",
  none_failed: "none_failed",
  none_failed_min_one_success: "none_failed",
  none_failed_or_skipped: "none_failed",
  always: "all_done",
}

const PRESETS = new Set(["@hourly", "@daily", "@weekly", "@monthly", "@yearly"])

/** Arguments about messages. */
const MESSAGE_ARGS = ["email", "email_on_failure", "sla"] as const

const CALLBACK_ADVICE = {
  on_failure_callback: "write it as a task under on_failure, or add notify",
  on_success_callback: "write it as a task below, or as a hook under on_success of the workflow, or add notify",
  on_retry_callback: "Ork reports the last attempt only",
  sla_miss_callback: "a notify with on: [deadline] sends a message",
} as const

/** Airflow has no limit unless `execution_timeout` is set; Ork's default of one hour would stop long tasks. */
const TIMEOUT = "7d"

class DagImport {
  readonly #file: AirflowFile
  readonly #dag: AirflowDag
  readonly #names: ReadonlyMap<AirflowDag, string>
  readonly #problems: ImportProblem[] = []
  readonly #params: Record<string, Json> = {}
  /** Functions that tasks of the DAG call. */
  readonly #called = new Set<string>()

  /** `names`: the workflows of all DAGs of the file. */
  constructor(file: AirflowFile, dag: AirflowDag, names: ReadonlyMap<AirflowDag, string>) {
    this.#file = file
    this.#dag = dag
    this.#names = names
  }

  get #name(): string {
    return this.#names.get(this.#dag)!
  }

  /** All tasks wait for their past. */
  get #dependsOnPast(): boolean {
    const { default_args: defaults } = this.#dag.args
    return isObject(defaults) && defaults["depends_on_past"] === true
  }

  get #module(): string {
    return `${this.#name}_tasks.py`
  }

  addTo({ workflows, problems }: Imported): void {
    const { args, tasks, line } = this.#dag
    const defaults = isObject(args["default_args"]) ? args["default_args"] : {}
    const converted = Object.fromEntries(tasks.map((task) => [task.id, this.#task(task)]))
    if (isObject(args["params"])) for (const [name, value] of Object.entries(args["params"])) this.#param(name, value)
    const fields = this.#workflowFields(args)
    const definition: WorkflowDefinition = {
      name: this.#name,
      ...fields,
      ...(this.#dependsOnPast && fields.schedule !== undefined && { depends_on_past: true }),
      ...(Object.keys(this.#params).length > 0 && { params: this.#params }),
      defaults: { timeout: TIMEOUT, ...this.#common(defaults, line, "default_args"), ...messagesOf(defaults) },
      tasks: converted,
    }
    const files = this.#called.size === 0 ? {} : { files: { [this.#module]: this.#moduleText() } }
    workflows.push({ definition, line, source: `Airflow DAG ${this.#dag.id}`, ...files })
    problems.push(...this.#problems)
  }

  #problem(line: number, message: string): void {
    this.#problems.push({ line, message })
  }

  // -- the workflow ----------------------------------------------------------------------------------------------------------------

  #workflowFields(args: JsonObject): Partial<WorkflowDefinition> {
    const fields: Partial<WorkflowDefinition> = {}
    const { line } = this.#dag
    for (const [name, value] of Object.entries(args)) {
      switch (name) {
        case "description":
          if (typeof value === "string") fields.description = value
          break
        case "tags":
          if (Array.isArray(value)) fields.tags = value.map((tag) => (typeof tag === "string" ? tag : JSON.stringify(tag)))
          break
        case "max_active_runs":
          if (typeof value === "number") fields.max_active_runs = value
          break
        case "max_active_tasks":
        case "concurrency":
          if (typeof value === "number") fields.concurrency = value
          break
        case "dagrun_timeout":
          fields.timeout = secondsOf(value) ?? TIMEOUT
          break
        case "schedule":
        case "schedule_interval":
          Object.assign(fields, this.#schedule(value, args))
          break
        case "catchup":
        case "params":
          break
        case "on_failure_callback":
        case "on_success_callback":
        case "sla_miss_callback":
          this.#problem(line, `${name} of the DAG is left out: ${CALLBACK_ADVICE[name]}`)
          break
        default:
          if (!IGNORED_DAG_ARGS.has(name)) this.#problem(line, `${name} of the DAG has no counterpart and is left out`)
      }
    }
    return fields
  }

  #schedule(value: Json, args: JsonObject): Pick<WorkflowDefinition, "schedule" | "triggers"> {
    const { line } = this.#dag
    if (value === null || value === "@once") return {}
    const datasets = datasetsIn(value)
    if (datasets.length > 0) return this.#triggers(datasets)
    const start = isObject(args["start_date"]) ? args["start_date"] : {}
    const timing = timingOf(value)
    if (timing === null) {
      this.#problem(line, `the schedule ${JSON.stringify(sourceOf(value) ?? value)} is not converted`)
      return {}
    }
    if (args["catchup"] === undefined) {
      this.#problem(
        line,
        "catchup is not set: Airflow 2 catches up on missed ticks then, Ork does not unless you set catchup: all",
      )
    }
    const catchesUp = args["catchup"] === true
    return {
      schedule: {
        ...timing,
        timezone: typeof start["zone"] === "string" ? start["zone"] : "UTC",
        ...(catchesUp && { catchup: "all" }),
        ...(catchesUp && typeof start["$date"] === "string" && { start: start["$date"] }),
      },
    }
  }

  /** Returns the triggers of a DAG that waits for datasets: it follows the workflows that write them. */
  #triggers(datasets: readonly string[]): Pick<WorkflowDefinition, "triggers"> {
    const writers = datasets.flatMap((dataset) => {
      const found = this.#file.dags.filter(({ tasks }) =>
        tasks.some(({ args }) => datasetsIn(args["outlets"]).includes(dataset)),
      )
      const message = `the dataset ${dataset} is written by no DAG of this file; name the workflow that writes it under triggers`
      if (found.length === 0) this.#problem(this.#dag.line, message)
      return found.map((dag) => this.#names.get(dag)!)
    })
    const after = [...new Set(writers)].filter((name) => name !== this.#name)
    return after.length === 0 ? {} : { triggers: [{ after }] }
  }

  #param(name: string, value: Json): void {
    if (sourceOf(value) === null) this.#params[name] = value
    else this.#problem(this.#dag.line, `the param ${name} is ${sourceOf(value)}; declare it under params`)
  }

  // -- tasks -----------------------------------------------------------------------------------------------------------------------

  #task(task: AirflowTask): TaskDefinition {
    const { id, args, line, operator } = task
    const upstream = this.#dag.edges.flatMap(([above, below]) => (below === id ? [above] : []))
    const { own, used } = this.#work(task)
    const rest = Object.fromEntries(Object.entries(args).filter(([name]) => !used.includes(name)))
    return {
      ...(upstream.length > 0 && { depends_on: upstream }),
      ...this.#branch(upstream, id),
      ...own,
      ...this.#common(rest, line, `${operator} ${id}`),
      ...this.#messages(args),
    }
  }

  /** Returns the messages about the task if they differ from those of the default arguments. */
  #messages(args: JsonObject): Pick<TaskDefinition, "notify" | "deadline"> {
    const { default_args: given } = this.#dag.args
    const defaults = isObject(given) ? given : {}
    if (!MESSAGE_ARGS.some((name) => args[name] !== undefined)) return {}
    const { notify = [], ...deadline } = messagesOf({ ...defaults, ...args })
    return isDeepStrictEqual(notify, messagesOf(defaults).notify ?? []) ? deadline : { ...deadline, notify }
  }

  /** Returns what the task runs, and the arguments that this covers. */
  #work(task: AirflowTask): { own: TaskDefinition; used: string[] } {
    const { args, operator, line, id } = task
    switch (operator) {
      case "BashOperator":
        return {
          own: {
            ...this.#mapped(task, "bash_command"),
            command: this.#text(task.expand?.["bash_command"] === undefined ? args["bash_command"] : "${{ item }}", line),
            shell: ["bash", "-c"],
            ...(isObject(args["env"]) && { env: this.#texts(args["env"], line) }),
            ...(typeof args["cwd"] === "string" && { working_dir: args["cwd"] }),
          },
          used: ["bash_command", "env", "cwd", "append_env"],
        }
      case "EmptyOperator":
      case "DummyOperator":
        return { own: { command: ["true"] }, used: [] }
      case "PythonOperator":
      case "BranchPythonOperator":
      case "@task":
      case "@task.branch":
        return { own: this.#call(task), used: CALL_ARGS }
      case "PythonVirtualenvOperator":
      case "ExternalPythonOperator":
      case "@task.virtualenv":
      case "@task.external_python":
        return { own: { ...this.#call(task), ...this.#python(task) }, used: [...CALL_ARGS, ...PYTHON_ARGS] }
      case "TriggerDagRunOperator":
        this.#problem(line, `${id} waits for the end of the run that it starts, as wait_for_completion=True does`)
        return {
          own: {
            executor: "workflow",
            workflow: this.#text(args["trigger_dag_id"], line),
            ...(isObject(args["conf"]) && { input: this.#texts(args["conf"], line) }),
          },
          used: ["trigger_dag_id", "conf", "wait_for_completion", "poke_interval"],
        }
      default:
        return this.#sensor(task) ?? this.#unconverted(task)
    }
  }

  #sensor(task: AirflowTask): { own: TaskDefinition; used: string[] } | null {
    const { line } = task
    return sensorWork(task, {
      text: (value) => this.#text(value, line),
      problem: (message) => this.#problem(line, message),
    })
  }

  #unconverted({ args, operator, line, id }: AirflowTask): { own: TaskDefinition; used: string[] } {
    this.#problem(line, `${operator} ${id} is not converted: its task fails until you replace its command`)
    return { own: { command: `echo "replace ${operator} ${id}" >&2; exit 1` }, used: Object.keys(args) }
  }

  #call(task: AirflowTask): TaskDefinition {
    const { args, line, id } = task
    const name = typeof args["$function"] === "string" ? args["$function"] : (sourceOf(args["python_callable"]) ?? "")
    const found = this.#file.functions[name]
    if (found === undefined) {
      this.#problem(line, `the function of ${id} is not in this file: its task fails until you replace its command`)
      return { command: `echo "replace ${id}" >&2; exit 1` }
    }
    this.#called.add(name)
    if (found.context || /\b(?:ti|context|kwargs)\b/.test(found.source)) {
      this.#problem(found.line, `${name} reads the context of Airflow; Ork passes the input only`)
    }
    const positional = Array.isArray(args["op_args"]) ? args["op_args"] : []
    const inputs: JsonObject = {
      ...Object.fromEntries(positional.map((value, i) => [found.params[i] ?? `arg${i}`, value])),
      ...(isObject(args["op_kwargs"]) ? args["op_kwargs"] : {}),
      ...(isObject(args["$input"]) ? args["$input"] : {}),
    }
    const [mapped] = Object.keys(task.expand ?? {})
    const input = this.#texts(inputs, line)
    if (mapped !== undefined) input[mapped] = "${{ item }}"
    return {
      ...(mapped !== undefined && this.#mapped(task, mapped)),
      executor: "python",
      file: this.#module,
      function: name,
      ...(Object.keys(input).length > 0 && { input }),
    }
  }

  /** Returns the Python of a function and its packages. */
  #python({ args, line, id }: AirflowTask): Pick<TaskDefinition, "interpreter" | "requirements"> {
    const { python, python_version: version, requirements = [], system_site_packages: system } = args
    const interpreter = python ?? (version === undefined ? undefined : `python${this.#text(version, line)}`)
    const lines = typeof requirements === "string" ? requirements.split("\n") : requirements
    const isList = Array.isArray(lines) && lines.every((value) => typeof value === "string")
    if (!isList) this.#problem(line, `the requirements of ${id} are not constant texts and are left out`)
    if (system === true)
      this.#problem(line, `${id} does not see the packages of the system; add those that it uses to requirements`)
    const packages = isList ? lines.map((text) => text.trim()).filter((text) => text !== "") : []
    return {
      ...(interpreter !== undefined && { interpreter: this.#text(interpreter, line) }),
      ...(packages.length > 0 && { requirements: packages }),
    }
  }

  /** Returns the fan-out of a mapped task. */
  #mapped({ expand, line, id }: AirflowTask, argument: string): Pick<TaskDefinition, "foreach"> {
    if (expand === null) return {}
    if (Object.keys(expand).length > 1) this.#problem(line, `${id} expands several arguments; only ${argument} is converted`)
    const items = expand[argument]
    return items === undefined ? {} : { foreach: this.#value(items, line) }
  }

  /** A task below a branch runs if the branch returned its name. */
  #branch(upstream: readonly string[], id: string): Pick<TaskDefinition, "if"> {
    const branch = this.#dag.tasks.find((task) => upstream.includes(task.id) && /branch/i.test(task.operator))
    return branch === undefined ? {} : { if: `tasks.${branch.id}.output == ${JSON.stringify(id)}` }
  }

  #texts(values: JsonObject, line: number): { [name: string]: string } {
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, this.#value(value, line) as string]))
  }

  #value(value: Json, line: number): Json {
    if (typeof value === "string") return this.#text(value, line)
    if (Array.isArray(value)) return value.map((each) => this.#value(each, line))
    if (!isObject(value)) return value
    if (typeof value["$task"] === "string") {
      const field = value["key"] === undefined ? "" : `[${JSON.stringify(value["key"])}]`
      return `\${{ tasks.${value["$task"]}.output${field} }}`
    }
    const source = sourceOf(value)
    if (source === null) return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, this.#value(each, line)]))
    this.#problem(line, `the value ${source} is not a constant; it is passed as text`)
    return literalText(source)
  }

  #text(value: Json | undefined, line: number): string {
    if (typeof value !== "string") {
      this.#problem(line, `${sourceOf(value) ?? JSON.stringify(value ?? null)} is not a constant text`)
      return sourceOf(value) ?? ""
    }
    if (value === "${{ item }}") return value
    const { text, params, unknown } = convertJinja(value)
    for (const name of params) this.#params[name] ??= ""
    for (const template of unknown) this.#problem(line, `the template ${template} has no counterpart`)
    return text
  }

  /** Converts arguments that every operator has. */
  #common(args: JsonObject, line: number, what: string): TaskDefinition {
    const task: TaskDefinition = {}
    const retry: RetryDefinition = {}
    for (const [name, value] of Object.entries(args)) {
      switch (name) {
        case "retries":
          if (typeof value === "number") task.retries = value
          break
        case "retry_delay":
          retry.base_delay = secondsOf(value) ?? 300
          break
        case "max_retry_delay":
          retry.max_delay = secondsOf(value) ?? 3600
          break
        case "retry_exponential_backoff":
          retry.backoff = value === true ? "exponential" : "fixed"
          break
        case "execution_timeout":
          task.timeout = secondsOf(value) ?? TIMEOUT
          break
        case "trigger_rule":
          this.#rule(task, value, line)
          break
        case "queue":
          if (typeof value === "string") task.queue = value
          break
        case "doc_md":
        case "doc":
          if (typeof value === "string") task.description = value
          break
        case "depends_on_past":
          if (value === true && !this.#dependsOnPast)
            this.#problem(line, `depends_on_past of ${what} is left out: in Ork it is a field of the workflow, for whole runs`)
          break
        case "email":
          if (addressesIn(value).length === 0) this.#problem(line, `email of ${what} is not a constant text and is left out`)
          break
        case "email_on_failure":
          break
        case "sla":
          if (secondsOf(value) === null) this.#problem(line, `sla of ${what} is not a constant and is left out`)
          break
        case "on_failure_callback":
        case "on_success_callback":
        case "on_retry_callback":
          this.#problem(line, `${name} of ${what} is left out: ${CALLBACK_ADVICE[name]}`)
          break
        case "wait_for_downstream":
          if (value !== false) this.#problem(line, `${name} of ${what} has no counterpart and is left out`)
          break
        default:
          if (!IGNORED_TASK_ARGS.has(name)) this.#problem(line, `${name} of ${what} has no counterpart and is left out`)
      }
    }
    if (Object.keys(retry).length > 0) task.retry = { backoff: "fixed", ...retry }
    return task
  }

  #rule(task: TaskDefinition, value: Json, line: number): void {
    const name = typeof value === "string" ? value : (sourceOf(value) ?? "").split(".").at(-1)!.toLowerCase()
    const rule = RULES[name]
    if (rule === undefined) this.#problem(line, `the trigger rule ${name} has no counterpart`)
    else if (rule !== "all_success") task.run_when = rule
  }

  #moduleText(): string {
    const { functions, shared } = this.#file
    const sources = Object.entries(functions).map(([name, { source }]) =>
      this.#called.has(name) ? withNamedParameters(name, source) : source,
    )
    return `# Functions of the Airflow DAG ${this.#dag.id}\n${[shared, ...sources].filter((part) => part !== "").join("\n\n\n")}\n`
  }
}

const addressesIn = (value: Json | undefined): string[] =>
  [value ?? []]
    .flat()
    .flatMap((each) => (typeof each === "string" ? each.split(/[,;\s]+/).filter((address) => address !== "") : []))

/**
 * Airflow mails to `email` about the failure of a task unless `email_on_failure` is False, and about a missed `sla`, which counts from
 * the start of the run.
 */
const messagesOf = (args: JsonObject): Pick<TaskDefinition, "notify" | "deadline"> => {
  const email = addressesIn(args["email"])
  const sla = secondsOf(args["sla"])
  const on: NotifyDefinition["on"] = [
    ...(args["email_on_failure"] === false ? [] : (["failure"] as const)),
    ...(sla === null ? [] : (["deadline"] as const)),
  ]
  return {
    ...(sla !== null && { deadline: sla }),
    ...(email.length > 0 && on.length > 0 && { notify: [{ on, email }] }),
  }
}

/** Returns the addresses of the datasets of a list, or of a dataset. */
const datasetsIn = (value: Json | undefined): string[] =>
  [value ?? []].flat().flatMap((each) => (isObject(each) && typeof each["$dataset"] === "string" ? [each["$dataset"]] : []))

/** Makes all parameters of a function keyword-only, because Ork passes the whole input to a parameter that is not. */
const withNamedParameters = (name: string, source: string): string => {
  const head = new RegExp(`\\bdef ${name}\\((?!\\s*\\)|[^)]*(?<!\\*)\\*(?!\\*))`)
  return source.replace(head, (text) => `${text}*, `)
}

const timingOf = (value: Json): Pick<ScheduleDefinition, "cron" | "every"> | null => {
  const seconds = isObject(value) ? secondsOf(value) : null
  if (seconds !== null) return { every: seconds }
  if (typeof value !== "string") return null
  return value.startsWith("@") && !PRESETS.has(value) ? null : { cron: value }
}

// Reads `*.ork-test.yaml`: cases of one workflow, each with params, mocks and what is expected.

import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { basename, dirname, join, resolve } from "node:path"
import { z } from "zod"
import { nearest } from "../../core/values/nearest.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { type DefinitionProblem, type Path, pathText, problemText } from "../../core/model/problems.ts"
import { parseDuration } from "../../core/values/quantities.ts"
import { RUN_STATUSES, type RunStatus, TASK_STATUSES, type TaskStatus } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { bindParams } from "../../core/rules/runs/params.ts"
import { problemsOfIssues } from "../../definition/schema-issues.ts"
import { duration, either, json, object, record, strictObject, text } from "../../definition/schema-parts.ts"
import { readDocument, type TextDocument } from "../../definition/text-document.ts"
import { compileGraph } from "../../sdk/graph/compile-graph.ts"
import { InvalidDefinitionError } from "../../sdk/errors.ts"
import type { GraphDefinition } from "../../sdk/graph/graph.ts"
import { yaml } from "../../sdk/graph/yaml.ts"
import { InputError } from "../terminal/errors.ts"
import { keyOf, nodeOfKey } from "./task-keys.ts"

export const CASES_SUFFIX = /\.ork-test\.ya?ml$/

/** The behaviour of a task's attempt in a test. */
export interface MockedAttempt {
  output?: Json
  /** The attempt fails with this message. */
  error?: string
  /** A failure is not retried. */
  fatal?: boolean
  /** Duration of the attempt. */
  duration?: number | string
}

export interface Expectations {
  status?: RunStatus
  tasks?: { [task: string]: TaskStatus }
  order?: string[]
  attempts?: { [task: string]: number }
  outputs?: { [task: string]: Json }
  errors?: { [task: string]: string }
  duration?: number | string
}

export interface TestCase {
  name: string
  line: number
  now: string | undefined
  params: JsonObject
  mocks: { [task: string]: MockedAttempt | MockedAttempt[] }
  expect: Expectations
  /** Virtual time after which the case gives up. */
  limitMs: number
}

export interface CaseFile {
  /** The path of the file, as the command line names it. */
  file: string
  definition: GraphDefinition<JsonObject, JsonObject>
  workflow: CompiledWorkflow
  cases: TestCase[]
  /** Returns the line of an expectation of a case. */
  lineOf(path: Path): number
}

const DEFAULT_LIMIT = "30d"

const mock = strictObject({
  output: json.optional(),
  error: text.optional(),
  fatal: z.boolean().optional(),
  duration: duration.optional(),
} satisfies Record<keyof MockedAttempt, z.ZodType>)

const testCase = strictObject({
  now: text.optional(),
  params: object.optional(),
  limit: duration.optional(),
  mocks: record(either("a mock, or a list with one for each attempt", [mock, z.array(mock).min(1)])).optional(),
  expect: strictObject({
    status: z.enum(RUN_STATUSES).optional(),
    tasks: record(z.enum(TASK_STATUSES)).optional(),
    order: z.array(text).optional(),
    attempts: record(z.int().min(0)).optional(),
    outputs: record(json).optional(),
    errors: record(text).optional(),
    duration: duration.optional(),
  } satisfies Record<keyof Expectations, z.ZodType>),
})

const caseFile = strictObject({ workflow: text.optional(), cases: record(testCase) })

type CaseDocument = z.infer<typeof caseFile>

/** Throws an InputError with one line per problem. */
export const readCases = async (cwd: string, file: string): Promise<CaseFile> => {
  const path = resolve(cwd, file)
  const source = await readFile(path, "utf8").catch((error: Error) => {
    throw new InputError(`${file}: cannot be read: ${error.message}`)
  })
  const { document, problems } = readDocument(source, "yaml")
  if (document === null || problems.length > 0) throw new InputError(problems.map((each) => problemText(each, file)).join("\n"))
  const reject = (found: readonly DefinitionProblem[]): InputError => new InputError(located(found, document, file))
  const parsed = caseFile.safeParse(document.value, { reportInput: true })
  if (!parsed.success) throw reject(problemsOfIssues(parsed.error.issues))
  const named = parsed.data.workflow ?? basename(file).replace(CASES_SUFFIX, ".yaml")
  const workflowFile = join(dirname(path), named)
  const rejectWorkflow = (message: string): InputError => reject([{ path: ["workflow"], message }])
  if (!existsSync(workflowFile))
    throw rejectWorkflow(`there is no file ${named} beside the cases; name that of the workflow with workflow: FILE`)
  const { definition, workflow } = readWorkflow(workflowFile, rejectWorkflow)
  const unknown = problemsOfCases(parsed.data, workflow)
  if (unknown.length > 0) throw reject(unknown)
  const lineOf = (at: Path): number => document.locate(at, true).line
  const cases = Object.entries(parsed.data.cases).map(([name, given]) => toCase(name, given, lineOf(["cases", name])))
  return { file, definition, workflow, cases, lineOf }
}

const located = (problems: readonly DefinitionProblem[], document: TextDocument, file: string): string =>
  problems
    .map(({ path, key, ...problem }) =>
      problemText({ ...problem, path: pathText(path), ...document.locate(path, key === true) }, file),
    )
    .join("\n")

const readWorkflow = (file: string, reject: (message: string) => InputError): Pick<CaseFile, "definition" | "workflow"> => {
  try {
    const definition = yaml(file)
    return { definition, workflow: compileGraph(definition).workflow }
  } catch (error) {
    if (error instanceof InvalidDefinitionError) throw reject(error.message)
    throw error
  }
}

const toCase = (name: string, given: CaseDocument["cases"][string], line: number): TestCase => ({
  name,
  line,
  now: given.now,
  params: (given.params ?? {}) as JsonObject,
  mocks: (given.mocks ?? {}) as TestCase["mocks"],
  expect: given.expect as Expectations,
  limitMs: parseDuration(given.limit ?? DEFAULT_LIMIT)!,
})

/** Returns the problems of mocks that say two things, or nothing. */
const mockProblem = ({ output, error, fatal }: MockedAttempt): string | null => {
  if (output !== undefined && error !== undefined) return "must have an output or an error, not both"
  return fatal === true && error === undefined ? "must have an error, because it is fatal" : null
}

/** Returns why no task or instance has a key that names a task; null: one may. `isMock`: only tasks and instances of all fan-outs count. */
const instanceProblem = (workflow: CompiledWorkflow, key: string, isMock: boolean): string | null => {
  const { node, path } = nodeOfKey(workflow, key)!
  if (path === "") return null
  const example = keyOf(workflow, node.name, Array.from(node.name.split("."), () => 0).join("."))
  const isComplete = path.split(".").length === (example.match(/\[/g)?.length ?? 0)
  if (keyOf(workflow, node.name, path) === key && (isComplete || !isMock)) return null
  return example === node.name
    ? `${node.name} has no instances: it is in no fan-out`
    : `there is no instance ${key}; an instance of this task is ${example}`
}

/**
 * Returns a problem for each task that does not exist, for params that the workflow does not take, for mocks without a meaning, and for
 * each duration and instant that cannot be read.
 */
const problemsOfCases = ({ cases }: CaseDocument, workflow: CompiledWorkflow): DefinitionProblem[] => {
  const problems: DefinitionProblem[] = []
  for (const [name, { params = {}, mocks = {}, expect, limit, now }] of Object.entries(cases)) {
    const at = ["cases", name]
    const checkDuration = (value: unknown, path: Path): void => {
      if (value !== undefined && parseDuration(value) === null)
        problems.push({ path, message: "must be a duration, such as 90s or 2h" })
    }
    const checkTask = (key: string, path: Path, isMock = false): void => {
      if (nodeOfKey(workflow, key) !== null) {
        const problem = instanceProblem(workflow, key, isMock)
        if (problem !== null) problems.push({ path, message: problem, key: true })
        return
      }
      const suggestion = nearest(
        key,
        workflow.nodes.map((node) => node.name),
      )
      const message = `there is no task ${key} in ${workflow.name}`
      problems.push({ path, message, key: true, ...(suggestion !== undefined && { suggestion }) })
    }
    if (now !== undefined && Number.isNaN(Date.parse(now)))
      problems.push({ path: [...at, "now"], message: "must be an instant" })
    checkDuration(limit, [...at, "limit"])
    checkDuration(expect.duration, [...at, "expect", "duration"])
    const bound = bindParams(workflow, { values: params as JsonObject })
    for (const { path, ...problem } of bound.ok ? [] : bound.problems)
      problems.push({ ...problem, path: [...at, ...path.split(".")], key: true })
    for (const [key, given] of Object.entries(mocks)) {
      const path = [...at, "mocks", key]
      checkTask(key, path, true)
      for (const attempt of [given].flat() as MockedAttempt[]) {
        checkDuration(attempt.duration, path)
        const message = mockProblem(attempt)
        if (message !== null) problems.push({ path, message, key: true })
      }
    }
    for (const field of ["tasks", "attempts", "outputs", "errors"] as const) {
      for (const key of Object.keys(expect[field] ?? {})) checkTask(key, [...at, "expect", field, key])
    }
    for (const [i, key] of (expect.order ?? []).entries()) checkTask(key, [...at, "expect", "order", i])
  }
  return problems
}

// Reads what `ork simulate` plays: a workflow file, and the params, outputs and durations of one of its cases.

import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import type { JsonObject } from "../../core/values/json.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { GraphDefinition } from "../../sdk/graph/graph.ts"
import { type CaseFile, readCases, type TestCase } from "../cases/read-cases.ts"
import { loadDefinition } from "../target/definition.ts"
import { readParams } from "../target/params.ts"
import { InputError } from "../terminal/errors.ts"
import { sampleOutputs } from "./sample-outputs.ts"
import type { Scenario } from "./simulation.ts"

export interface ScenarioOptions {
  cwd: string
  file: string
  profiles: WorkerProfiles
  param: readonly string[]
  paramsFile: string | undefined
  /** Name of a case; undefined: the first one that expects a success. */
  caseName: string | undefined
}

export const readScenario = async (options: ScenarioOptions): Promise<Scenario> => {
  const { cwd, file, profiles } = options
  const { workflow } = await loadDefinition(cwd, file, profiles)
  const given = await findCase(options)
  const params = await readParams(withDefaults(workflow, given?.params ?? {}), options)
  const path = resolve(cwd, file)
  const definition: GraphDefinition<JsonObject, JsonObject> = {
    kind: "graph",
    name: workflow.name,
    schema: undefined,
    source: { kind: "file", file: path, text: await readFile(path, "utf8") },
    uses: [],
    result: null,
  }
  return { definition, workflow, params, mocks: given?.mocks ?? {}, outputs: sampleOutputs(workflow) }
}

/** Makes the params of the case the defaults. */
const withDefaults = (workflow: CompiledWorkflow, params: JsonObject): CompiledWorkflow => ({
  ...workflow,
  params: workflow.params.map((spec) => ({
    ...spec,
    ...(Object.hasOwn(params, spec.name) && { default: params[spec.name]! }),
  })),
})

/** Returns the case of the file with cases beside the workflow; null: there is none. */
const findCase = async ({ cwd, file, caseName }: ScenarioOptions): Promise<TestCase | null> => {
  const stem = file.replace(/\.(?:ya?ml|json)$/, "")
  const beside = [".yaml", ".yml"].map((suffix) => `${stem}.ork-test${suffix}`).find((name) => existsSync(resolve(cwd, name)))
  if (beside === undefined) {
    if (caseName === undefined) return null
    throw new InputError(`--case: there is no file ${stem}.ork-test.yaml with cases`)
  }
  const cases: CaseFile = await readCases(cwd, beside)
  if (caseName === undefined) return cases.cases.find(({ expect }) => expect.status === "success") ?? null
  const found = cases.cases.find(({ name }) => name === caseName)
  if (found !== undefined) return found
  throw new InputError(
    `--case: ${beside} has no case ${JSON.stringify(caseName)}; it has ${cases.cases.map(({ name }) => name).join(", ")}`,
  )
}

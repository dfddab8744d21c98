// `ork simulate FILE`: plays a workflow many times in virtual time, with faults, and reports what can go wrong. Exit code 1 if a
// finding loses work, 2 if the file or an option has a problem.

import { SimulationBatch } from "../../simulate/simulation-batch.ts"
import { type Finding, FINDING_KINDS } from "../../simulate/findings.ts"
import { neverFindings } from "../../simulate/never.ts"
import { reportJson, reportLines, storyJson, storyLines } from "../../simulate/report.ts"
import { readScenario } from "../../simulate/scenario.ts"
import { playAll } from "../../simulate/threads.ts"
import type { Context } from "../../target/context.ts"
import { loadConfig } from "../../target/load-config.ts"
import { print, printJson } from "../../terminal/output.ts"
import { parseChoice, parseWholeNumber } from "../../terminal/option-values.ts"

export interface SimulateOptions {
  runs?: string
  seed?: string
  case?: string
  param: string[]
  paramsFile?: string
  ignore: string[]
  json?: boolean
}

const DEFAULT_RUNS = 1000
const MAX_RUNS = 1_000_000

export const simulate = async (context: Context, file: string, options: SimulateOptions): Promise<number> => {
  const seed = parseWholeNumber("--seed", options.seed, 0)
  const runs = parseWholeNumber("--runs", options.runs, 1, MAX_RUNS)
  const isIgnored = ignoredBy(options.ignore)
  const { workerProfiles: profiles } = await loadConfig(context, {})
  const { param, paramsFile, case: caseName } = options
  const scenario = await readScenario({ cwd: context.cwd, file, profiles, param, paramsFile, caseName })
  if (seed !== undefined && runs === undefined) {
    await using batch = await SimulationBatch.prepare(scenario)
    const { run, findings: all } = await batch.play(seed)
    const findings = all.filter((finding) => !isIgnored(finding))
    if (options.json === true) printJson(context, storyJson(file, run, findings))
    else for (const line of storyLines(file, run, findings)) print(context, line)
    return exitCode(findings)
  }
  const firstSeed = seed ?? 1
  const tally = await playAll(scenario, firstSeed, runs ?? DEFAULT_RUNS)
  const never = neverFindings(scenario.workflow, tally).map((finding) => ({ ...finding, runs: tally.runs, seed: null }))
  const findings = [...tally.findings.values(), ...never]
    .filter((finding) => !isIgnored(finding))
    .toSorted((a, b) => Number(b.losesWork) - Number(a.losesWork) || b.runs - a.runs)
  const { statuses, faults } = tally
  const report = { file, workflow: scenario.workflow.name, firstSeed, runs: tally.runs, statuses, faults, findings }
  if (options.json === true) printJson(context, reportJson(report))
  else for (const line of reportLines(report)) print(context, line)
  return exitCode(findings)
}

const exitCode = (findings: readonly Finding[]): number => (findings.some(({ losesWork }) => losesWork) ? 1 : 0)

/** Reads `--ignore KIND` and `--ignore KIND:TASK`. */
const ignoredBy = (texts: readonly string[]): ((finding: Finding) => boolean) => {
  const ignored = texts.map((text) => {
    const [kind, ...task] = text.split(":")
    return { kind: parseChoice("--ignore", kind!, FINDING_KINDS), task: task.length === 0 ? undefined : task.join(":") }
  })
  return ({ kind, task }) => ignored.some((each) => each.kind === kind && (each.task === undefined || each.task === task))
}

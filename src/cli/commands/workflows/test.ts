// `ork test [PATH…]`: runs the cases of `*.ork-test.yaml`. Exit code 1 if a case fails, 2 if a file has a problem.

import { glob, stat, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { checkCase } from "../../cases/check-case.ts"
import { CASES_SUFFIX, type CaseFile, readCases, type TestCase } from "../../cases/read-cases.ts"
import { caseLines, type CaseReport, junitXml, reportJson } from "../../cases/reports.ts"
import { runCase } from "../../cases/run-case.ts"
import { InvalidInputError } from "../../../sdk/errors.ts"
import type { Context } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { print, printJson } from "../../terminal/output.ts"
import { plural } from "../../terminal/text.ts"

export interface TestOptions {
  filter?: string
  json?: boolean
  junit?: string
}

export const test = async (context: Context, paths: string[], { filter = "", json, junit }: TestOptions): Promise<number> => {
  const files = await Promise.all((await findFiles(context.cwd, paths)).map((file) => readCases(context.cwd, file)))
  const chosen = files.flatMap((file) =>
    file.cases.filter(({ name }) => `${file.file}: ${name}`.includes(filter)).map((given) => ({ file, given })),
  )
  if (chosen.length === 0)
    throw new InputError(filter === "" ? "there are no cases" : `no case contains ${JSON.stringify(filter)}`)
  const reports: CaseReport[] = []
  for (const { file, given } of chosen) {
    const report = await reportOf(file, given)
    reports.push(report)
    if (json !== true) for (const line of caseLines(report)) print(context, line)
  }
  if (junit !== undefined) await writeReport(resolve(context.cwd, junit), junitXml(reports))
  const failed = reports.filter(({ differences }) => differences.length > 0).length
  if (json === true) printJson(context, reportJson(reports))
  else print(context, `${plural(reports.length, "case")}, ${failed === 0 ? "all passed" : `${failed} failed`}`)
  return failed === 0 ? 0 : 1
}

const writeReport = async (path: string, text: string): Promise<void> => {
  await writeFile(path, text).catch((error: Error) => {
    throw new InputError(`--junit: the report cannot be written: ${error.message}; name a file in a folder that exists`)
  })
}

const reportOf = async (file: CaseFile, given: TestCase): Promise<CaseReport> => {
  const startedAt = performance.now()
  const at = ["cases", given.name, "expect"]
  const result = await runCase(file, given).catch((error: unknown) => {
    if (error instanceof InvalidInputError) throw new InputError(`${file.file}:${given.line}: ${error.message}`)
    throw error
  })
  const differences = checkCase(file.workflow, given.expect, result)
  return {
    file: file.file,
    name: given.name,
    line: given.line,
    ms: Math.round(performance.now() - startedAt),
    differences: differences.map((each) => ({ ...each, line: file.lineOf([...at, ...each.path]) })),
  }
}

/** Returns the files with cases that the paths name; a folder stands for those in it and below. */
const findFiles = async (cwd: string, paths: readonly string[]): Promise<string[]> => {
  const found = await Promise.all((paths.length === 0 ? ["."] : paths).map((path) => filesAt(cwd, path)))
  return [...new Set(found.flat())]
}

const filesAt = async (cwd: string, path: string): Promise<string[]> => {
  const status = await stat(resolve(cwd, path)).catch(() => null)
  if (status === null) throw new InputError(`${path}: there is no such file or folder`)
  if (!status.isDirectory()) {
    if (CASES_SUFFIX.test(path)) return [path]
    throw new InputError(`${path}: the name of a file with cases ends in .ork-test.yaml`)
  }
  const isSkipped = (name: string): boolean => /(?:^|\/)(?:node_modules|\.[^/.][^/]*)$/.test(name)
  const names = await Array.fromAsync(glob("**/*.ork-test.{yaml,yml}", { cwd: resolve(cwd, path), exclude: isSkipped }))
  if (names.length === 0) throw new InputError(`${path}: there are no files *.ork-test.yaml in this folder`)
  return names.toSorted().map((name) => join(path, name))
}

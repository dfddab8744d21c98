// Reads the variables in a task's `env_file`, which is stored with the workflow. The server reads it, so that the variables are the same
// wherever the task runs.

import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { parseEnv } from "node:util"
import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import { envNameProblem } from "../../core/compile/context/names.ts"
import { BundleFolders, bundleKey } from "../../objects/bundles/bundles.ts"

type Variables = { [name: string]: string }

/** Location of the files of a run: in the bundle of its version, or in the folder of the definition. */
export interface FileLocation {
  bundle: string | undefined
  workingDir: string | null
}

export class EnvFiles {
  readonly #bundles: BundleFolders

  constructor({ dataDir, objects }: Pick<EngineOptions, "dataDir" | "objects">) {
    this.#bundles = new BundleFolders({ dataDir, read: (hash) => objects.get(bundleKey(hash)) })
  }

  /** Throws a TaskFailure if there is no such file, or if a line of it is not a variable. */
  async read(file: string, { bundle, workingDir }: FileLocation): Promise<Variables> {
    const folder = bundle === undefined ? workingDir : await this.#bundles.folder(bundle)
    const text = folder === null ? null : await readFile(join(folder, file), "utf8").catch(() => null)
    if (text === null) throw new TaskFailure(`env_file: the file ${file} is not beside the definition, or cannot be read`)
    return variablesIn(text, file)
  }
}

/** An assignment: its name, and its value in quotes, which may have several lines, or without. */
const ASSIGNMENT = /^([^\S\n]*(?:export\s+)?[^\s=#"'`]+[^\S\n]*=)(?:[^\S\n]*(["'`])[\s\S]*?\2|([^\n]*))/gm

/**
 * Quotes values with a `#` that is part of them: it starts a comment only after white space, as in a shell, but after any character for
 * Node's `parseEnv`.
 */
const withQuotes = (text: string): string =>
  text.replaceAll(ASSIGNMENT, (whole, name: string, _quote: string | undefined, value: string | undefined) => {
    if (value?.includes("#") !== true) return whole
    const plain = value.replace(/\s+#.*$/, "").trim()
    const quote = ["'", "`", '"'].find((each) => !plain.includes(each)) ?? ""
    return `${name}${quote}${plain}${quote}`
  })

export const variablesIn = (text: string, file: string): Variables => {
  const variables = parseEnv(withQuotes(text)) as Variables
  const lines = text.split("\n")
  const isKnown = (line: string): boolean => {
    const name = /^\s*(?:export\s+)?([^\s=]+)\s*=/.exec(line)?.[1]
    return name !== undefined && Object.hasOwn(variables, name)
  }
  // A value in quotes may continue on further lines, which look like anything.
  const isContinued = Object.values(variables).some((value) => value.includes("\n"))
  const bad = isContinued ? -1 : lines.findIndex((line) => !/^\s*(?:#|$)/.test(line) && !isKnown(line))
  if (bad !== -1) throw new TaskFailure(`env_file: line ${bad + 1} of ${file} is not a variable; write NAME=value`)
  for (const name of Object.keys(variables)) {
    const problem = envNameProblem(name)
    if (problem !== null) throw new TaskFailure(`env_file: ${file}: ${problem}`)
  }
  return variables
}

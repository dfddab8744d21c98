// `ork export FILE`: prints the YAML of the graphs that a file of a program exports.

import { mkdir, stat, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { messageOf } from "../../../core/values/error-message.ts"
import { compileGraph } from "../../../sdk/graph/compile-graph.ts"
import type { AnyGraph } from "../../../sdk/graph/graph.ts"
import { InvalidDefinitionError } from "../../../sdk/errors.ts"
import type { Context } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { print } from "../../terminal/output.ts"

export interface ExportOptions {
  out?: string
}

export const exportGraphs = async (context: Context, file: string, { out }: ExportOptions): Promise<number> => {
  const graphs = await loadGraphs(context, file)
  if (graphs.length === 0) {
    throw new InputError(`${file} exports no graph; write \`export const etl = graph("etl", …)\` in it`)
  }
  const texts = graphs.map((graph) => ({ name: graph.name, text: sourceOf(graph) }))
  if (out === undefined) {
    print(context, texts.map(({ text }) => text.trimEnd()).join("\n---\n"))
    return 0
  }
  const folder = resolve(context.cwd, out)
  await mkdir(folder, { recursive: true })
  for (const { name, text } of texts) {
    await writeFile(join(folder, `${name}.yaml`), text)
    print(context, `wrote ${join(out, `${name}.yaml`)}`)
  }
  return 0
}

const sourceOf = (graph: AnyGraph): string => {
  try {
    return compileGraph(graph).source
  } catch (error) {
    if (error instanceof InvalidDefinitionError) throw new InputError(error.message)
    throw error
  }
}

const loadGraphs = async ({ cwd }: Context, file: string): Promise<AnyGraph[]> => {
  const path = resolve(cwd, file)
  if ((await stat(path).catch(() => null))?.isFile() !== true) throw new InputError(`${file}: there is no such file`)
  const loading = import(pathToFileURL(path).href) as Promise<{ [name: string]: unknown }>
  const loaded = await loading.catch((error: unknown) => {
    throw new InputError(`${file} cannot be loaded: ${messageOf(error)}`)
  })
  return [...new Set(Object.values(loaded))].filter(isGraphInCode)
}

/** Returns whether a value is a graph, by its form: the program may have another copy of Ork. */
const isGraphInCode = (value: unknown): value is AnyGraph =>
  typeof value === "object" &&
  value !== null &&
  "kind" in value &&
  value.kind === "graph" &&
  "source" in value &&
  (value as AnyGraph).source.kind === "code"

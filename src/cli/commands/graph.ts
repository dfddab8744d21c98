// `ork graph FILE`: the tasks of a workflow and what they wait for, as text or for another program to draw.

import type { Context } from "../target/backends.ts"
import { loadDefinition } from "../target/definition.ts"
import { InputError } from "../terminal/errors.ts"
import { loadConfig } from "../target/settings.ts"
import { GRAPH_FORMATS, renderGraph } from "../../core/model/render-graph.ts"
import { nearest } from "../../core/model/nearest.ts"

export interface GraphOptions {
  format: string
}

export const graph = async (context: Context, file: string, options: GraphOptions): Promise<number> => {
  const format = GRAPH_FORMATS.find((known) => known === options.format)
  if (format === undefined) {
    const near = nearest(options.format, GRAPH_FORMATS)
    const hint = near === undefined ? `there are ${GRAPH_FORMATS.join(", ")}` : `did you mean ${near}?`
    throw new InputError(`--format: there is no format "${options.format}"; ${hint}`)
  }
  const { workerProfiles } = await loadConfig(context, {})
  const { workflow } = await loadDefinition(context.cwd, file, workerProfiles)
  context.stdout.write(renderGraph(workflow, format))
  return 0
}

// `ork graph FILE`: prints the tasks of a workflow and their dependencies as text, Mermaid or Graphviz.

import type { Context } from "../../target/context.ts"
import { loadDefinition } from "../../target/definition.ts"
import { parseChoice } from "../../terminal/option-values.ts"
import { loadConfig } from "../../target/load-config.ts"
import { GRAPH_FORMATS, renderGraph } from "../../../core/model/render-graph.ts"

export interface GraphOptions {
  format: string
}

export const graph = async (context: Context, file: string, options: GraphOptions): Promise<number> => {
  const format = parseChoice("--format", options.format, GRAPH_FORMATS)
  const { workerProfiles } = await loadConfig(context, {})
  const { workflow } = await loadDefinition(context.cwd, file, workerProfiles)
  context.stdout.write(renderGraph(workflow, format))
  return 0
}

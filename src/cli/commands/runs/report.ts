// `ork report RUN -o FILE`: writes a run as one HTML page: graph, timeline, tasks with input, output and the end of their logs.

import { lastLines } from "./logs.ts"
import { reportPage } from "../../report/page.ts"
import type { Context } from "../../target/context.ts"
import { type ReaderFlags, type RunReader, tasksInOrder, withReader } from "../../target/reader.ts"
import { writeOutputFile } from "../../terminal/output-file.ts"
import { print } from "../../terminal/output.ts"
import { localZone } from "../../terminal/times.ts"
import type { Run, Task } from "../../../protocol/client/client.ts"

/** Instances and lines per log that a page shows. */
const MAX_TASKS = 1000
const MAX_LINES = 1000

export interface ReportOptions extends ReaderFlags {
  output?: string
}

export const report = (context: Context, runText: string, options: ReportOptions): Promise<number> =>
  withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    const graph = await reader.graph(run)
    const all = await tasksInOrder(reader, run, graph)
    const tasks = all.slice(0, MAX_TASKS)
    const page = reportPage({
      run,
      graph,
      tasks,
      omitted: all.length - tasks.length,
      logs: await readLogs(reader, run, tasks),
      zone: localZone(context),
      now: context.backends.clock.now(),
    })
    const name = `${run.workflow}-${run.number}.html`
    const file = options.output ?? name
    await writeOutputFile(context.cwd, file, name, page)
    print(context, `wrote ${file}`)
    return 0
  })

const readLogs = async (reader: RunReader, run: Run, tasks: readonly Task[]) => {
  const logs = new Map<string, { text: string; cut: boolean }>()
  for (const { id, name, path, attempt } of tasks) {
    if (attempt === 0) continue
    const request = { runId: run.id, task: name, follow: false, ...(path !== "" && { path }) }
    const lines: string[] = []
    for await (const { line } of lastLines(reader, request, MAX_LINES + 1)) lines.push(line)
    logs.set(id, { text: lines.slice(-MAX_LINES).join("\n"), cut: lines.length > MAX_LINES })
  }
  return logs
}

// `ork export-run RUN`: writes everything about a run into one file, from which `ork replay` runs a task again.

import type { Context } from "../../target/context.ts"
import { type ReaderFlags, withReader } from "../../target/reader.ts"
import { writeOutputFile } from "../../terminal/output-file.ts"
import { print } from "../../terminal/output.ts"

export interface ExportRunOptions extends ReaderFlags {
  output?: string
}

export const exportRun = (context: Context, runText: string, { output, ...flags }: ExportRunOptions): Promise<number> =>
  withReader(context, flags, async (reader) => {
    const run = await reader.findRun(runText)
    const name = `${run.workflow}-${run.number}.run.json`
    const file = output ?? name
    await writeOutputFile(context.cwd, file, name, reader.export(run), { mode: 0o600 })
    print(context, `wrote ${file}; run a task of it with: ork replay ${file} --task NAME`)
    return 0
  })

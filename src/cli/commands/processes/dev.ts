// `ork dev FILE`: runs a program that opens an engine, again after each change of its files, and serves the API and the web UI on the
// database that the program has opened.

import { stat } from "node:fs/promises"
import { resolve } from "node:path"
import type { OpenedReport } from "../../../sdk/opened-report.ts"
import { Program } from "../../dev/program.ts"
import { onTerminationSignal } from "../../run/signals.ts"
import { EXIT_INTERRUPTED } from "../../run/outcome.ts"
import type { Context } from "../../target/context.ts"
import { InputError } from "../../terminal/errors.ts"
import { print } from "../../terminal/output.ts"
import { serve } from "./serve.ts"

export interface DevOptions {
  host?: string
  port?: string
}

export const dev = async (context: Context, file: string, args: string[], options: DevOptions): Promise<number> => {
  if ((await stat(resolve(context.cwd, file)).catch(() => null))?.isFile() !== true) {
    throw new InputError(`${file}: there is no such file`)
  }
  const log = (line: string): void => print(context, `ork dev: ${line}`)
  const { promise: opened, resolve: resolveOpened } = Promise.withResolvers<OpenedReport | null>()
  let served: OpenedReport | null = null
  const program = new Program({
    file,
    args,
    cwd: context.cwd,
    env: context.env,
    log,
    opened(report) {
      served ??= report
      if (report.database !== served.database) log(`${file} has opened another database; start ork dev again to show it`)
      resolveOpened(report)
    },
  })
  const removeHandler = onTerminationSignal(
    () => resolveOpened(null),
    () => process.exit(EXIT_INTERRUPTED),
  )
  program.start()
  try {
    const report = await opened
    // The server has its own handlers of signals, and serves until the first one.
    removeHandler()
    if (report === null) return 0
    return await serve(context, {
      ...options,
      databaseUrl: report.database,
      objectStore: report.objects,
      worker: false,
      label: [],
      handlers: [],
    })
  } finally {
    await program.stop()
  }
}

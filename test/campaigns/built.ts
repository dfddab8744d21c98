// Modules of the built command, for entry points that start it with other ports.

import { enableCompileCache } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { Context } from "../../src/cli/target/context.ts"

const built = (file: string): string => pathToFileURL(join(import.meta.dirname, "../../dist", file)).href

/** Runs the built command with this process's arguments, in a context that `change` returns. */
export const runBuilt = async (change: (context: Context) => Context): Promise<void> => {
  enableCompileCache()
  const { context } = (await import(built("backends.js"))) as typeof import("../../src/backends.ts")
  const { main } = (await import(built("cli/program.js"))) as typeof import("../../src/cli/program.ts")
  process.exitCode = await main(change(context), process.argv.slice(2))
}

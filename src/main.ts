// Starts the command. Other modules are imported after the compile cache is enabled.

import { enableCompileCache } from "node:module"
import { homedir } from "node:os"
import { join } from "node:path"

enableCompileCache(join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "ork", "compile"))

const { context } = await import("./backends.ts")
const { main } = await import("./cli/program.ts")

// The reader of a pipe has closed it (`ork runs | head`): ends without an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0)
  throw error
})

process.exitCode = await main(context, process.argv.slice(2))

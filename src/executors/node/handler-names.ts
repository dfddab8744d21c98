// Prints the names of the handlers and functions in a file as JSON. Run by handlers.ts as a process of its own.

import { loadHandlerNames } from "./function-loader.ts"

const file = process.argv[2]!
process.stdout.write(`${JSON.stringify(await loadHandlerNames(file))}\n`)
process.exit(0)

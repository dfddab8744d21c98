// Prints which handlers and functions a file has, as JSON. Run by handlers.ts as a process of its own.

import { loadNames } from "./code.ts"

const file = process.argv[2]!
process.stdout.write(`${JSON.stringify(await loadNames(file))}\n`)
process.exit(0)

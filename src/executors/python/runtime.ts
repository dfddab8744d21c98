// How a worker process for functions in Python is started: the `python3` of the server's PATH, with a worker and a module `ork` of
// ours that nobody has to install.

import { fileURLToPath } from "node:url"
import type { Runtime } from "../pool/runtime.ts"

const MAIN = fileURLToPath(new URL("../../../python/worker.py", import.meta.url))

export const pythonRuntime: Runtime = {
  name: "python",
  argv: () => ["python3", MAIN],
}

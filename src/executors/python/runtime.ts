// The runtime for functions in Python: worker processes run the task's Python, by default the `python3` in the server's PATH, with
// python/worker.py, which provides the module `ork`.

import { dirname } from "node:path"
import { fileURLToPath } from "node:url"
import type { Runtime } from "../pool/runtime.ts"

const MAIN = fileURLToPath(new URL("../../../python/worker.py", import.meta.url))

export const pythonRuntime: Runtime = {
  name: "python",
  argv: (python) => [python?.program ?? "python3", MAIN],
  // Python finds modules by name in the folder of the file, and keeps one module per name.
  codeKey: dirname,
}

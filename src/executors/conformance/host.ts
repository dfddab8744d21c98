// A process that runs an executor with a task that leaves daemons, prints "ready", and waits to be killed. Arguments: helper,
// namespace ("yes" or "no"), folder, mark.

import { join } from "node:path"
import { FileObjectStore } from "../../objects/file/file.ts"
import { ProcessExecutor } from "../process/process.ts"
import { assignment, launch, realClock } from "./fixture.ts"
import { leftoverScript } from "./leftover-processes.ts"

const [, , helper, namespace, folder, mark] = process.argv as [string, string, "native" | "node", "yes" | "no", string, string]
const objects = new FileObjectStore(join(folder, "host-objects"))
const dataDir = join(folder, "host-data")
const executor = new ProcessExecutor({ objects, clock: realClock, helper, dataDir, namespace: namespace === "yes" })
await executor.start()
const script = `${leftoverScript(mark, helper === "native")}\nwait`
const running = launch(
  { executor, objects, folder, cleanup: () => executor.stop() },
  assignment(folder, { shell: script }, { env: { MARK: mark } }),
)
await running.line("ready")
process.stdout.write("ready\n")
await running.result

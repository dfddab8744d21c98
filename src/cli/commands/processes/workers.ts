// `ork workers`: lists the processes that run tasks.

import type { Context } from "../../target/context.ts"
import { connect, type ServerFlags } from "../../target/connect.ts"
import { printListing } from "../../terminal/listing.ts"
import { localTimes } from "../../terminal/times.ts"

export const workers = async (context: Context, options: ServerFlags): Promise<number> => {
  const items = await (await connect(context, options)).listWorkers()
  const times = localTimes(context, context.backends.clock.now())
  return printListing(context, options, {
    items,
    none: "no workers",
    header: ["worker", "kind", "state", "load", "queues", "labels", times.header("last seen"), "version", "name"],
    row: (worker) => [
      worker.id,
      worker.kind,
      worker.alive ? "alive" : "dead",
      worker.capacity === null ? String(worker.running) : `${worker.running}/${worker.capacity}`,
      worker.queues?.join(",") ?? "",
      worker.labels?.join(",") ?? "",
      times.text(worker.last_seen_at),
      worker.version ?? "",
      worker.run_id === null ? worker.name : `${worker.name}, run ${worker.run_id}`,
    ],
  })
}

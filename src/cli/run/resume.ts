// `ork run --resume RUN`: goes on with the stored definition. What was interrupted continues, what failed or was cancelled is
// retried, a success is only told.

import type { Context } from "../target/backends.ts"
import { InputError } from "../terminal/errors.ts"
import { findRun } from "../target/find-run.ts"
import { summarize } from "./follow.ts"
import { readHandlers, refuseUnknown } from "../target/handlers.ts"
import { openWritableObjects } from "../target/open.ts"
import type { RunView } from "../progress/model.ts"
import { resetView, seedView } from "../progress/seed.ts"
import { storeSource } from "./run-source.ts"
import { runSession, type Session } from "./session.ts"
import type { Config } from "../../config.ts"
import { runEnded } from "../../core/model/status.ts"
import { runShape } from "../../protocol/api/shapes.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

export const resumeRun = async (context: Context, config: Config, text: string, json: boolean): Promise<number> => {
  const store = await context.backends.openStore(config, { create: false })
  if (store === null) throw new InputError(`there are no runs in ${config.databaseUrl} yet; start one with \`ork run FILE\``)
  try {
    const row = await findRun(store, text, true)
    await refuseTaken(context, store, row)
    const view = await seedView(store, row, await store.compiled(row.versionId))
    if (row.status === "success") {
      const source = storeSource({ store, objects: await context.backends.openObjects(config) }, row.id)
      await summarize(context, source, view, runShape(row), json)
      return 0
    }
    const handlers = await readHandlers(context, config.handlers)
    refuseUnknown(view.workflow, handlers)
    const objects = await openWritableObjects(context, config)
    return await runSession(context, { config, handlers, store, objects, runId: row.id, view, json }, (session) =>
      goOn(session, store, view, row),
    )
  } finally {
    await store.close()
  }
}

/** An interrupted run goes on when the engine starts. A cancel that was cut off is finished first. */
const goOn = async ({ engine, reporter }: Session, store: Store, view: RunView, row: RunRow): Promise<void> => {
  await engine.start()
  if (!runEnded(row.status)) {
    if (row.cancelling === null) return reporter.start()
    await engine.ended(row.id)
  }
  const { reset } = await engine.planRetry(row.id, {})
  await resetView(store, row, view, reset.nodes)
  reporter.start()
  await engine.retry(row.id, {})
}

const refuseTaken = async (context: Context, store: Store, row: RunRow): Promise<void> => {
  if (!row.private) throw new InputError(`run ${row.id} was not started by \`ork run\`; a server goes on with it by itself`)
  const { clock, processAlive } = context.backends
  for (const holder of await store.listHolders()) {
    if (holder.runId !== row.id || holder.dead) continue
    const alive = store.leases ? Date.parse(holder.leaseUntil) > clock.now() : processAlive(holder.process)
    if (!alive) continue
    const hint = store.leases ? "; if it has just died, try again in 10 seconds" : ""
    throw new InputError(`run ${row.id} is being run by ${holder.name}; wait for its end, or stop it first${hint}`)
  }
}

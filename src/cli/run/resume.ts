// `ork run --resume RUN`: continues a run with its stored definition. Interrupted tasks and hooks continue, failed and cancelled tasks are
// retried. For a successful run it only prints the summary.

import type { Context } from "../target/context.ts"
import { holderIsAlive } from "../../engine/services/explain.ts"
import { InputError } from "../terminal/errors.ts"
import { findRun } from "../target/find-run.ts"
import { type LocalRun, openLocalRun } from "./local-run.ts"
import { printSummary } from "./outcome.ts"
import { readHandlers, rejectUnregistered } from "../target/handlers.ts"
import { openWritableObjects } from "../target/stores.ts"
import { loadView, resetForRetry } from "../progress/load-view.ts"
import type { TerminalRun } from "../progress/terminal-state.ts"
import { storeSource } from "../progress/store-source.ts"
import type { Config } from "../../config.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { runShape } from "../../engine/run-json.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

export const resumeRun = async (context: Context, config: Config, text: string, json: boolean): Promise<number> => {
  const store = await context.backends.openStore(config, { create: false })
  if (store === null) throw new InputError(`there are no runs in ${config.databaseUrl} yet; start one with \`ork run FILE\``)
  try {
    const row = await findRun(store, text, true)
    await rejectIfHeld(context, store, row)
    const view = await loadView(store, row, await store.getVersion(row.versionId))
    if (row.status === "success" && row.hooksPending === 0) {
      const source = storeSource({ store, objects: await context.backends.openObjects(config) }, row.id)
      await printSummary(context, source, view, runShape(row), json)
      return 0
    }
    const handlers = await readHandlers(context, config.handlers)
    rejectUnregistered(view.workflow, handlers)
    const objects = await openWritableObjects(context, config)
    const run = await openLocalRun(context, { config, handlers, store, objects, runId: row.id, view, json })
    try {
      await continueRun(run, store, view, row)
      return await run.finish()
    } finally {
      await run.close()
    }
  } finally {
    await store.close()
  }
}

/**
 * Starts the engine, which continues an open run; retries a closed one. Waits first for an unfinished cancellation, and for
 * hooks.
 */
const continueRun = async ({ engine, reporter }: LocalRun, store: Store, view: TerminalRun, row: RunRow): Promise<void> => {
  await engine.start()
  if (!isRunClosed(row.status)) {
    if (row.cancelling === null) return reporter.start()
    await engine.waitForRun(row.id)
  }
  if (row.status === "success") return reporter.start()
  if (row.hooksPending > 0) await engine.waitForRun(row.id)
  const { reset } = await engine.planRetry(row.id, {})
  await resetForRetry(store, row, view, reset.rows)
  reporter.start()
  await engine.retry(row.id, {})
}

/** Rejects a run of a server, and a run that a live process holds. */
const rejectIfHeld = async (context: Context, store: Store, row: RunRow): Promise<void> => {
  if (!row.private) throw new InputError(`run ${row.id} was not started by \`ork run\`; its server continues it`)
  const { clock, processAlive } = context.backends
  const isAlive = holderIsAlive(store, () => clock.now(), processAlive)
  for (const holder of await store.listHolders()) {
    if (holder.runId !== row.id || holder.dead || !isAlive(holder)) continue
    const hint = store.usesLeases ? `; if that process has just died, try again in ${holder.leaseMs / 1000} seconds` : ""
    throw new InputError(`run ${row.id} is being run by ${holder.name}; wait until it finishes, or stop it first${hint}`)
  }
}

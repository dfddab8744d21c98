// `ork approve RUN TASK` and `ork reject RUN TASK`: through the server, or straight in the store of this folder where there is
// none, so that a run of `ork run` in another terminal goes on.

import { userInfo } from "node:os"
import { resolve } from "node:path"
import type { Context } from "../target/backends.ts"
import { connectIfThere } from "../target/connect.ts"
import { findRun } from "../target/find-run.ts"
import { type Opened, withStores } from "../target/open.ts"
import { print, printJson } from "../terminal/output.ts"
import type { ReaderFlags } from "../target/reader.ts"
import { findServerRun } from "../target/server-reader.ts"
import { instancePathOf } from "./logs.ts"
import { newRunId } from "../../core/model/ids.ts"
import { Engine } from "../../engine/engine.ts"

export interface AnswerOptions extends ReaderFlags {
  comment?: string
  index?: string
  path?: string
  json?: boolean
}

interface Answer {
  task: string
  path: string | undefined
  approved: boolean
  comment: string | undefined
}

export const answer = async (
  context: Context,
  runText: string,
  task: string,
  approved: boolean,
  options: AnswerOptions,
): Promise<number> => {
  const { url, apiKey, databaseUrl, objectStore, comment } = options
  const given: Answer = { task, path: instancePathOf(options), approved, comment }
  const direct = (databaseUrl !== undefined || objectStore !== undefined) && url === undefined
  const flags = { ...(url !== undefined && { url }), ...(apiKey !== undefined && { apiKey }) }
  const client = direct ? null : await connectIfThere(context, flags)
  let runId: string
  if (client === null) {
    const stores = { ...(databaseUrl !== undefined && { databaseUrl }), ...(objectStore !== undefined && { objectStore }) }
    runId = await withStores(context, stores, (opened) => answerInStore(context, opened, runText, given))
  } else {
    runId = (await findServerRun(client, runText)).id
    const { path } = given
    await client.answerTask({ runId, task, ...(path !== undefined && { path }) }, approved, comment)
  }
  if (options.json === true) printJson(context, { run_id: runId, task, path: given.path ?? "", approved })
  else print(context, `${task} of run ${runId} is ${approved ? "approved" : "rejected"}`)
  return 0
}

/** By an engine that takes nothing: it only writes the answer. */
const answerInStore = async (
  context: Context,
  { config, store, objects }: Opened,
  runText: string,
  given: Answer,
): Promise<string> => {
  const { backends } = context
  const run = await findRun(store, runText)
  const engine = new Engine({
    ...(await backends.engineParts(config, objects)),
    executors: new Map(),
    store,
    objects,
    clock: backends.clock,
    random: backends.random,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    holder: { kind: "run", name: "answer", process: backends.processIdentity() },
    privateRun: newRunId(backends.clock.now(), backends.random.hex128()),
    lanes: [],
    concurrency: 0,
    maxFanout: config.maxFanout,
    maxOutputBytes: config.maxOutputBytes,
    graceMs: config.graceMs,
    dataDir: resolve(context.cwd, config.dataDir),
  })
  await engine.start()
  try {
    const { task: name, path = "", approved, comment = null } = given
    await engine.externalSignals.approval({ runId: run.id, name, path, approved, comment, by: userInfo().username })
  } finally {
    await engine.stop()
  }
  return run.id
}

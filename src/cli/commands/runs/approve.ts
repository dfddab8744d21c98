// `ork approve RUN TASK` and `ork reject RUN TASK`: through a server, or directly in the store of this folder if none is running,
// for a run of `ork run` in another terminal.

import { userInfo } from "node:os"
import type { Context } from "../../target/context.ts"
import { findRun, findServerRun } from "../../target/find-run.ts"
import type { OpenStores } from "../../target/stores.ts"
import { parseTask } from "../../terminal/option-values.ts"
import { printResult } from "../../terminal/output.ts"
import { type ReaderFlags, withServerOrStores } from "../../target/reader.ts"
import { privateEngine } from "../../run/private-engine.ts"
import { newRunId } from "../../../core/model/ids.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import type { Engine } from "../../../engine/engine.ts"

export interface ApproveOptions extends ReaderFlags {
  comment?: string
  index?: string
  path?: string
}

export const approve = (context: Context, run: string, task: string, options: ApproveOptions): Promise<number> =>
  signal(context, { run, task, approved: true }, options)

export const reject = (context: Context, run: string, task: string, options: ApproveOptions): Promise<number> =>
  signal(context, { run, task, approved: false }, options)

interface Approval {
  run: string
  task: string
  approved: boolean
}

const signal = async (context: Context, approval: Approval, options: ApproveOptions): Promise<number> => {
  const { approved } = approval
  const { comment } = options
  const { task, label, ...instance } = parseTask(approval.task, options)
  let { path } = instance
  const runId = await withServerOrStores(context, options, {
    async server(client) {
      const { id } = await findServerRun(client, approval.run)
      await client.decideApproval(omitUndefined({ runId: id, task, path, label }), approved, comment)
      return id
    },
    async stores(stores) {
      const { id } = await findRun(stores.store, approval.run)
      if (label !== undefined) path = (await stores.store.findPaths({ runId: id, name: task, label, limit: 1 }))[0]
      await withIdleEngine(context, stores, (engine) =>
        engine.externalSignals.approval({
          runId: id,
          name: task,
          path: path ?? "",
          approved,
          comment: comment ?? null,
          by: userInfo().username,
        }),
      )
      return id
    },
  })
  const value = { run_id: runId, task, path: path ?? "", approved }
  return printResult(context, options, value, `${task} of run ${runId} is ${approved ? "approved" : "rejected"}`)
}

/** Runs `use` with an engine that claims no work. */
const withIdleEngine = async (
  context: Context,
  stores: OpenStores,
  use: (engine: Engine) => Promise<unknown>,
): Promise<void> => {
  const { clock, random } = context.backends
  const engine = await privateEngine(context, stores, {
    name: "approve",
    privateRun: newRunId(clock.now(), random.hex128()),
    concurrency: 0,
    executors: async () => new Map(),
    log: { info: () => {}, warn: () => {}, error: () => {} },
  })
  await engine.start()
  try {
    await use(engine)
  } finally {
    await engine.stop()
  }
}

import { OpenWorkflow } from "openworkflow"
import { BackendPostgres } from "openworkflow/postgres"
import pg from "pg"
import { inParallel, untilCount } from "./waiting.mjs"

const ENDED = "SELECT count(*) FROM openworkflow.workflow_runs WHERE status IN ('completed', 'succeeded')"

export const open = async ({ postgres, functionSteps }) => {
  const backend = await BackendPostgres.connect(postgres)
  const observer = new pg.Client({ connectionString: postgres })
  await observer.connect()
  const client = new OpenWorkflow({ backend })
  const tenSteps = client.defineWorkflow({ name: "ten-steps" }, async ({ step }) => {
    for (let i = 0; i < functionSteps; i++) await step.run({ name: `s${i}` }, async () => i)
  })
  let worker = null
  let runs = 0
  return {
    async start() {
      if (worker !== null) return
      worker = client.newWorker({ concurrency: 20 })
      await worker.start()
    },
    async functions(count) {
      runs += count
      await inParallel(count, 32, () => tenSteps.run({}))
      await untilCount(observer, ENDED, runs)
    },
    async close() {
      await worker?.stop()
      await observer.end()
      await backend.stop()
    },
  }
}

import { DBOS } from "@dbos-inc/dbos-sdk"
import { inParallel } from "./waiting.mjs"

const tenSteps = DBOS.registerWorkflow(
  async (steps) => {
    for (let i = 0; i < steps; i++) await DBOS.runStep(async () => i, { name: `s${i}` })
  },
  { name: "ten-steps" },
)

export const open = async ({ postgres, functionSteps }) => {
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: postgres,
    systemDatabasePoolSize: 20,
    logLevel: "error",
    runAdminServer: false,
    applicationVersion: "v1",
  })
  let launched = false
  const start = async () => {
    if (launched) return
    launched = true
    await DBOS.launch()
  }
  return {
    start,
    async functions(count) {
      const handles = await inParallel(count, 64, () => DBOS.startWorkflow(tenSteps)(functionSteps))
      await Promise.all(handles.map((handle) => handle.getResult()))
    },
    close: () => DBOS.shutdown(),
  }
}

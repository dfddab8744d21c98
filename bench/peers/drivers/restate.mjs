// Starts its own server, from the product's npm package.

import { spawn } from "node:child_process"
import { createRequire } from "node:module"
import { join } from "node:path"
import * as restate from "@restatedev/restate-sdk"
import { inParallel, sleep } from "./waiting.mjs"

const SERVER = createRequire(import.meta.url).resolve("@restatedev/restate-server-linux-x64/bin/restate-server")
const [INGRESS, ADMIN, SERVICE] = [8080, 9070, 9080]

const post = async (url, body) => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
}

export const open = async ({ folder, functionSteps }) => {
  const server = spawn(SERVER, ["--base-dir", join(folder, "restate"), "--node-name", "bench"], {
    stdio: "ignore",
    env: { ...process.env, RESTATE_LOG_FILTER: "error", DO_NOT_TRACK: "1" },
  })
  process.on("exit", () => server.kill("SIGKILL"))
  const service = restate.service({
    name: "bench",
    handlers: {
      tenSteps: async (context) => {
        for (let i = 0; i < functionSteps; i++) await context.run(`s${i}`, async () => i)
        return null
      },
    },
  })
  await restate.serve({ services: [service], port: SERVICE, logger: () => {} })
  const isHealthy = () =>
    fetch(`http://127.0.0.1:${ADMIN}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await isHealthy())) await sleep(100)
  await post(`http://127.0.0.1:${ADMIN}/deployments`, { uri: `http://127.0.0.1:${SERVICE}` })
  return {
    async functions(count) {
      await inParallel(count, 200, () => post(`http://127.0.0.1:${INGRESS}/bench/tenSteps`, {}))
    },
    async close() {
      server.kill("SIGKILL")
    },
  }
}

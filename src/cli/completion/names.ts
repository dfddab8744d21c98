// Names for completion, requested from the server of this folder or of ORK_URL. A slow or unreachable server yields none, because
// the user is waiting for the shell.

import type { Context } from "../target/context.ts"
import { keyFor, loadServerConfig, serverAddress } from "../target/connect.ts"
import { Client } from "../../protocol/client/client.ts"

export type NameKind = "workflow" | "run" | "queue"

const TIMEOUT_MS = 700
const MAX_WORKFLOWS = 100
const MAX_RUNS = 20

export const serverNames =
  (context: Context) =>
  async (kind: NameKind): Promise<string[]> => {
    try {
      const config = await loadServerConfig(context, {})
      const { url } = await serverAddress(context, config)
      const client = new Client({ url, key: await keyFor(context, config, url), retries: 0, timeoutMs: TIMEOUT_MS })
      switch (kind) {
        case "workflow":
          return (await client.listWorkflows({ limit: MAX_WORKFLOWS })).items.map(({ name }) => name)
        case "run":
          return [...(await client.listRuns({ limit: MAX_RUNS })).items.map(({ id }) => id), "latest"]
        case "queue":
          return (await client.listQueues()).map(({ name }) => name)
        default:
          return kind satisfies never
      }
    } catch {
      return kind === "run" ? ["latest"] : []
    }
  }

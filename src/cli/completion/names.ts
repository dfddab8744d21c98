// Names for completion, asked of the server of this folder or of ORK_URL. A server that is slow or away gives none: somebody waits
// at the keyboard.

import type { NameKind } from "./candidates.ts"
import type { Context } from "../target/backends.ts"
import { loadServerConfig, serverAddress } from "../target/connect.ts"
import { Client } from "../../protocol/client/client.ts"

const PATIENCE_MS = 700
const PAGE = 100
const RUNS = 20

export const serverNames =
  (context: Context) =>
  async (kind: NameKind): Promise<string[]> => {
    try {
      const { url, key } = await serverAddress(context, await loadServerConfig(context, {}))
      const client = new Client({ url, key, retries: 0, timeoutMs: PATIENCE_MS })
      switch (kind) {
        case "workflow":
          return (await client.listWorkflows({ limit: PAGE })).items.map(({ name }) => name)
        case "run":
          return [...(await client.listRuns({ limit: RUNS })).items.map(({ id }) => id), "latest"]
        case "queue":
          return (await client.listQueues()).map(({ name }) => name)
        default:
          return kind satisfies never
      }
    } catch {
      return kind === "run" ? ["latest"] : []
    }
  }

// Finds what users name when a command takes a run or a workflow.

import { findServerRun } from "./find-run.ts"
import { findWorkflow } from "./find-workflow.ts"
import { parseRunId } from "../../core/model/ids.ts"
import { type Client, ClientError, type Run, type Workflow } from "../../protocol/client/client.ts"

/** Finds a run or a workflow. A workflow's name takes precedence over the beginning of a run's id, a full id over a name. */
export const findTarget = async (client: Client, text: string): Promise<{ run: Run } | { workflow: Workflow }> => {
  if (parseRunId(text) !== null || text === "latest") return { run: await findServerRun(client, text) }
  if (text.includes("#")) return { run: await findServerRun(client, text) }
  if (!/^[0-9a-f-]+$/.test(text)) return { workflow: await findWorkflow(client, text) }
  try {
    return { workflow: await client.getWorkflow(text) }
  } catch (error) {
    if (error instanceof ClientError && error.status !== null && error.status < 500) {
      return { run: await findServerRun(client, text) }
    }
    throw error
  }
}

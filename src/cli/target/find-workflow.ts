// A workflow of a server by its name; a slip of the pen is answered with the nearest one.

import { InputError } from "../terminal/errors.ts"
import { nearest } from "../../core/model/nearest.ts"
import { type Client, ClientError, everyItem, take, type Workflow } from "../../protocol/client/client.ts"

const PAGE = 100
const MAX_COMPARED = 1000

export const findWorkflow = async (client: Client, name: string): Promise<Workflow> => {
  try {
    return await client.getWorkflow(name)
  } catch (error) {
    if (!(error instanceof ClientError) || (error.code !== "NOT_FOUND" && error.code !== "VALIDATION_ERROR")) throw error
    throw new InputError(await unknown(client, name), { cause: error })
  }
}

const unknown = async (client: Client, name: string): Promise<string> => {
  const names = await workflowNames(client, MAX_COMPARED)
  const near = nearest(name, names)
  const hint =
    near === undefined ? (names.length === 0 ? "none is deployed" : `there are ${some(names)}`) : `did you mean ${near}?`
  return `there is no workflow ${name}; ${hint}${names.length === 0 ? ": deploy one with `ork deploy FILE`" : ""}`
}

const workflowNames = async (client: Client, limit: number): Promise<string[]> => {
  const pages = everyItem((cursor) => client.listWorkflows({ limit: PAGE, ...(cursor !== undefined && { cursor }) }))
  return (await take(pages, limit)).map((workflow) => workflow.name)
}

const SHOWN = 5

const some = (names: readonly string[]): string =>
  names.length <= SHOWN ? names.join(", ") : `${names.slice(0, SHOWN).join(", ")} and ${names.length - SHOWN} more`

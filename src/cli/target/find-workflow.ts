// Finds a workflow of a server by its name; the error for an unknown name suggests a similar one.

import { firstItems } from "./pages.ts"
import { InputError } from "../terminal/errors.ts"
import { nearest } from "../../core/values/nearest.ts"
import { type Client, ClientError, type Workflow } from "../../protocol/client/client.ts"

const MAX_COMPARED = 1000
const MAX_LISTED = 5

export const findWorkflow = async (client: Client, name: string): Promise<Workflow> => {
  try {
    return await client.getWorkflow(name)
  } catch (error) {
    if (!(error instanceof ClientError) || (error.code !== "NOT_FOUND" && error.code !== "VALIDATION_ERROR")) throw error
    throw new InputError(`there is no workflow ${name}; ${await hintFor(client, name)}`, { cause: error })
  }
}

const hintFor = async (client: Client, name: string): Promise<string> => {
  const workflows = await firstItems((page) => client.listWorkflows(page), MAX_COMPARED)
  const names = workflows.map((workflow) => workflow.name)
  if (names.length === 0) return "none is deployed: deploy one with `ork deploy FILE`"
  const near = nearest(name, names)
  if (near !== undefined) return `did you mean ${near}?`
  const listed = names.slice(0, MAX_LISTED).join(", ")
  return `there are ${listed}${names.length > MAX_LISTED ? ` and ${names.length - MAX_LISTED} more` : ""}`
}

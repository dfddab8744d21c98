// Finds the run that an address names.

import { parseRunId, type RunId } from "../../core/model/ids.ts"
import { renameTarget } from "../../store/contract/audit-scope.ts"
import type { RunRow } from "../../store/contract/store.ts"
import { noRun } from "../shared/errors.ts"
import type { Api } from "./ports.ts"

const NUMBERED = /^(.+)#(\d{1,9})$/

/** Returns the id of the run that an address names: by its id, or by its workflow and number. */
export const runIdOf = async (api: Api, text: string): Promise<RunId> => {
  const [, workflow, number] = NUMBERED.exec(text) ?? []
  const id =
    workflow === undefined ? parseRunId(text.toLowerCase()) : await api.store.findRunId({ workflow, number: Number(number) })
  if (id === null) throw noRun(text)
  renameTarget(text, id)
  return id
}

export const findRun = async (api: Api, text: string): Promise<RunRow> => {
  const found = await api.store.getRun(await runIdOf(api, text))
  if (found === null) throw noRun(text)
  return found
}

// Runs by what people type: an id, the beginning of one, or `latest`.

import { InputError } from "../terminal/errors.ts"
import { parseRunId } from "../../core/model/ids.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

const PAGE = 500

/** `privateOnly`: `latest` is the newest run made by `ork run`. */
export const findRun = async (store: Store, text: string, privateOnly = false): Promise<RunRow> => {
  const id = parseRunId(text)
  if (id !== null) {
    const run = await store.getRun(id)
    if (run === null) throw new InputError(`there is no run ${id}; \`ork runs\` lists those that there are`)
    return run
  }
  if (text === "latest") {
    for await (const run of allRuns(store)) if (run.private || !privateOnly) return run
    throw new InputError("there is no run yet; start one with `ork run FILE`")
  }
  const found: RunRow[] = []
  if (/^[0-9a-f-]+$/.test(text)) {
    for await (const run of allRuns(store)) {
      if (run.id.startsWith(text)) found.push(run)
      if (found.length > 1) break
    }
  }
  if (found.length > 1) throw new InputError(`more than one run begins with ${text}; give more of its id`)
  if (found[0] === undefined) throw new InputError(`there is no run ${text}; \`ork runs\` lists those that there are`)
  return found[0]
}

/** Newest first. */
async function* allRuns(store: Store): AsyncGenerator<RunRow> {
  let before: { createdAt: string; id: string } | undefined
  for (;;) {
    const page = await store.listRuns({ limit: PAGE, ...(before === undefined ? {} : { before }) })
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) return
    before = { createdAt: last.createdAt, id: last.id }
  }
}

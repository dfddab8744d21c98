// Finds a run by what users type: an id, the beginning of an id, or `latest`.

import { allItems } from "./pages.ts"
import { InputError } from "../terminal/errors.ts"
import { parseRunId, type RunId } from "../../core/model/ids.ts"
import type { Client, Run } from "../../protocol/client/client.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

interface RunLookup<Found> {
  byId(id: RunId): Promise<Found>
  /** Returns null if there is no run. */
  latest(): Promise<Found | null>
  /** Yields runs, newest first. */
  all(): AsyncIterable<Found>
  /** Command that starts a first run. */
  startCommand: string
}

const lookUp = async <Found extends { id: string }>(text: string, lookup: RunLookup<Found>): Promise<Found> => {
  const id = parseRunId(text)
  if (id !== null) return lookup.byId(id)
  if (text === "latest") {
    const latest = await lookup.latest()
    if (latest === null) throw new InputError(`there is no run yet; start one with \`${lookup.startCommand}\``)
    return latest
  }
  const found: Found[] = []
  if (/^[0-9a-f-]+$/.test(text)) {
    for await (const run of lookup.all()) {
      if (run.id.startsWith(text)) found.push(run)
      if (found.length > 1) throw new InputError(`more than one run begins with ${text}; give more of its id`)
    }
  }
  if (found[0] === undefined) throw noSuchRun(text)
  return found[0]
}

const noSuchRun = (text: string): InputError => new InputError(`there is no run ${text}; \`ork runs\` lists the runs`)

export const findServerRun = (client: Client, text: string): Promise<Run> =>
  lookUp(text, {
    byId: (id) => client.getRun(id),
    latest: async () => (await client.listRuns({ limit: 1 })).items[0] ?? null,
    all: () => allItems((page) => client.listRuns(page)),
    startCommand: "ork trigger NAME",
  })

/** Finds a run in the store. `privateOnly`: `latest` is the newest run that `ork run` created. */
export const findRun = (store: Store, text: string, privateOnly = false): Promise<RunRow> =>
  lookUp(text, {
    async byId(id) {
      const run = await store.getRun(id)
      if (run === null) throw noSuchRun(id)
      return run
    },
    async latest() {
      for await (const run of allRuns(store)) if (run.private || !privateOnly) return run
      return null
    },
    all: () => allRuns(store),
    startCommand: "ork run FILE",
  })

const PAGE_SIZE = 500

async function* allRuns(store: Store): AsyncGenerator<RunRow> {
  let before: { createdAt: string; id: string } | undefined
  for (;;) {
    const page = await store.listRuns({ limit: PAGE_SIZE, ...(before === undefined ? {} : { before }) })
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE_SIZE) return
    before = { createdAt: last.createdAt, id: last.id }
  }
}

// Finds a run by what users type: an id, its beginning, the short id of the web UI, `WORKFLOW#12`, a workflow's name for its latest run,
// or `latest`.

import { allItems } from "./pages.ts"
import { InputError } from "../terminal/errors.ts"
import { parseRunId, type RunId } from "../../core/model/ids.ts"
import { NAME } from "../../core/model/names.ts"
import { type Client, ClientError, type Run } from "../../protocol/client/client.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

interface RunLookup<Found> {
  byId(id: RunId): Promise<Found>
  /** Returns null if there is no such run. */
  byNumber(workflow: string, number: number): Promise<Found | null>
  /** Returns the newest run, of the workflow if one is named; null if there is none. */
  latest(workflow?: string): Promise<Found | null>
  /** Yields runs, newest first. */
  all(): AsyncIterable<Found>
  /** Command that starts a first run. */
  startCommand: string
}

/** The web UI shows the last characters of an id. */
const SHORT_ID = 8

const lookUp = async <Found extends { id: string }>(text: string, lookup: RunLookup<Found>): Promise<Found> => {
  const id = parseRunId(text)
  if (id !== null) return lookup.byId(id)
  if (text === "latest") {
    const latest = await lookup.latest()
    if (latest === null) throw new InputError(`there is no run yet; start one with \`${lookup.startCommand}\``)
    return latest
  }
  const [, workflow, number] = /^(.+)#(\d{1,9})$/.exec(text) ?? []
  const named =
    workflow !== undefined
      ? await lookup.byNumber(workflow, Number(number))
      : NAME.test(text)
        ? await lookup.latest(text)
        : null
  const found = named ?? (await byPartOfId(text, lookup))
  if (found === null) throw noSuchRun(text)
  return found
}

/** Finds a run by the beginning of its id, or by its short id. */
const byPartOfId = async <Found extends { id: string }>(text: string, { all }: RunLookup<Found>): Promise<Found | null> => {
  if (!/^[0-9a-f-]+$/.test(text)) return null
  const found: Found[] = []
  for await (const run of all()) {
    if (run.id.startsWith(text) || (text.length >= SHORT_ID && run.id.endsWith(text))) found.push(run)
    if (found.length > 1) throw new InputError(`more than one run begins with ${text}; give more of its id`)
  }
  return found[0] ?? null
}

const nullIfMissing = (error: unknown): null => {
  if (error instanceof ClientError && error.code === "NOT_FOUND") return null
  throw error
}

const noSuchRun = (text: string): InputError => new InputError(`there is no run ${text}; \`ork runs\` lists the runs`)

export const findServerRun = (client: Client, text: string): Promise<Run> =>
  lookUp(text, {
    byId: (id) => client.getRun(id),
    byNumber: (workflow, number) => client.getRun(`${workflow}#${number}`).catch(nullIfMissing),
    latest: async (workflow) =>
      (await client.listRuns({ limit: 1, ...(workflow !== undefined && { workflow }) })).items[0] ?? null,
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
    async byNumber(workflow, number) {
      const id = await store.findRunId({ workflow, number })
      return id === null ? null : await store.getRun(id)
    },
    async latest(workflow) {
      for await (const run of allRuns(store, workflow)) if (run.private || !privateOnly) return run
      return null
    },
    all: () => allRuns(store),
    startCommand: "ork run FILE",
  })

const PAGE_SIZE = 500

async function* allRuns(store: Store, workflow?: string): AsyncGenerator<RunRow> {
  const filter = workflow === undefined ? {} : { workflow }
  let before: { createdAt: string; id: string } | undefined
  for (;;) {
    const page = await store.listRuns({ limit: PAGE_SIZE, ...filter, ...(before === undefined ? {} : { before }) })
    yield* page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE_SIZE) return
    before = { createdAt: last.createdAt, id: last.id }
  }
}

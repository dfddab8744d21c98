// Creates a run for each new file or object that fits the pattern of a trigger. Every server searches by itself; the store accepts each
// file once. A server remembers what it has seen, so that it asks the store about new files only.

import { DueLoop } from "./due-loop.ts"
import { planTriggeredRun, type TriggeredRunOptions } from "./plan-triggered-run.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { Match, MatchFinder } from "../../objects/matches/matches.ts"
import type { Store } from "../../store/contract/store.ts"
import type { RecordedFile, FileVersion, PathTriggerRow, PathTriggerStore, WatchedPath } from "../../store/contract/triggers.ts"

/** A file that was changed less long ago may be unfinished. */
const SETTLE_MS = 10_000
/** Tolerated difference between the clocks of the database and of file systems. */
const CLOCK_SLACK_MS = 1000
const BATCH = 100
const MAX_MATCHES = 100_000

export interface PathTriggersOptions extends TriggeredRunOptions {
  store: Pick<Store, "getVersion" | "onWake"> & PathTriggerStore
  matches: Pick<MatchFinder, "find">
  /** Called after files were recorded, also on error: the commit may have succeeded. */
  wake(): void
}

/** State that this server keeps about a trigger. */
interface PathState {
  pattern: string
  /** Time of the next search, by the monotonic clock. */
  dueAt: number
  /** Files that were found and are not new. */
  seen: Set<string>
  isSearching: boolean
}

export class PathTriggers extends DueLoop {
  readonly #options: PathTriggersOptions
  /** By trigger. */
  readonly #states = new Map<number, PathState>()
  /** Searches under way. A slow one, such as in a large bucket, delays no other trigger. */
  readonly #searches = new Set<Promise<void>>()

  constructor(options: PathTriggersOptions) {
    super(options, "failed to look for new files; trying again")
    this.#options = options
  }

  override async stop(): Promise<void> {
    await super.stop()
    await Promise.all(this.#searches)
  }

  /** Starts the searches that are due. Returns the milliseconds until the next one. */
  protected override async pass(signal: AbortSignal): Promise<number | null> {
    const { store, clock } = this.#options
    const triggers = await store.pathTriggers()
    const ids = new Set(triggers.map(({ id }) => id))
    for (const id of this.#states.keys()) if (!ids.has(id)) this.#states.delete(id)
    for (const trigger of triggers) this.#searchIfDue(trigger, signal)
    const dueAts = [...this.#states.values()].map(({ dueAt }) => dueAt)
    return dueAts.length === 0 ? null : Math.max(0, Math.min(...dueAts) - clock.monotonic())
  }

  #searchIfDue(trigger: PathTriggerRow, signal: AbortSignal): void {
    const now = this.#options.clock.monotonic()
    const { id, spec } = trigger
    let state = this.#states.get(id)
    if (state?.pattern !== spec.path) {
      state = { pattern: spec.path, dueAt: 0, seen: new Set(), isSearching: false }
      this.#states.set(id, state)
    }
    if (state.dueAt > now) return
    state.dueAt = now + spec.everyMs
    if (state.isSearching) return
    state.isSearching = true
    const search = this.#searchOnce(trigger, state, signal).finally(() => {
      state.isSearching = false
      this.#searches.delete(search)
    })
    this.#searches.add(search)
  }

  /** Searches once, and stores a problem. Never rejects. */
  async #searchOnce(trigger: PathTriggerRow, state: PathState, signal: AbortSignal): Promise<void> {
    const { store, log } = this.#options
    const { id, spec, workflow } = trigger
    try {
      await this.#search(trigger, state, signal)
    } catch (error) {
      if (signal.aborted) return
      const problem = `could not look for ${spec.path}: ${messageOf(error)}`
      log.warn({ workflow, problem }, "failed to look for new files; trying again")
      await store.setTriggerProblem(id, problem).catch(() => {})
    }
  }

  async #search(trigger: PathTriggerRow, state: PathState, signal: AbortSignal): Promise<void> {
    const { store } = this.#options
    const { id, workflowId, problem } = trigger
    const watched = { id, workflowId, pattern: state.pattern }
    const { old, candidates } = await this.#find(trigger, state, signal)
    for (let i = 0; i < candidates.length; i += BATCH) {
      const batch = candidates.slice(i, i + BATCH)
      await this.#record(trigger, watched, await store.unrecordedFiles(watched, batch))
    }
    state.seen = new Set([...old, ...candidates].map(keyOf))
    if (problem?.startsWith("could not look") === true) await store.setTriggerProblem(id, null)
  }

  /** Finds files. `old`: known, or from before the trigger. `candidates`: to record, unless another server has. */
  async #find(
    { spec, since, workflow }: PathTriggerRow,
    { seen }: PathState,
    signal: AbortSignal,
  ): Promise<Record<"old" | "candidates", FileVersion[]>> {
    const { matches, clock, log } = this.#options
    const [old, candidates]: [FileVersion[], FileVersion[]] = [[], []]
    const from = Date.parse(since) - CLOCK_SLACK_MS
    const settled = clock.now() - Math.min(SETTLE_MS, spec.everyMs)
    const isFinished = ({ complete, changedAt }: Match): boolean => complete || changedAt <= settled
    for await (const match of matches.find(spec.path, { signal })) {
      const { path, version, changedAt } = match
      if (seen.has(keyOf(match)) || changedAt < from) old.push({ path, version })
      else if (isFinished(match)) candidates.push({ path, version })
      if (old.length + candidates.length < MAX_MATCHES) continue
      log.warn({ workflow, path: spec.path }, `more than ${MAX_MATCHES} files match; move those away that were read`)
      break
    }
    return { old, candidates }
  }

  async #record(trigger: PathTriggerRow, watched: WatchedPath, files: readonly FileVersion[]): Promise<void> {
    const { store, wake } = this.#options
    const recorded: RecordedFile[] = []
    for (const file of files) {
      const occasion = { trigger: "path", cause: { path: file.path }, logicalDate: null, timezone: null } as const
      recorded.push({ ...file, outcome: await planTriggeredRun(this.#options, trigger, occasion) })
    }
    if (recorded.length === 0) return
    await store.recordFiles(watched, recorded).finally(wake)
  }
}

const keyOf = ({ path, version }: FileVersion): string => `${path}\0${version}`

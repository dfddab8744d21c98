// Creates the runs that follow successful runs of other workflows. The store has recorded the successes; whoever removes them creates
// the run, so that there is one run per cause across servers and restarts.

import { DueLoop } from "./due-loop.ts"
import { type Occasion, planTriggeredRun, type TriggeredRunOptions } from "./plan-triggered-run.ts"
import type { AfterTrigger } from "../../core/model/workflow.ts"
import type { Store } from "../../store/contract/store.ts"
import type { AfterTriggerRow, SuccessUse, TriggerStore, UpstreamSuccess } from "../../store/contract/triggers.ts"

const PAGE = 100
const MAX_SUCCESSES = 1000

export interface TriggersOptions extends TriggeredRunOptions {
  store: Pick<Store, "getVersion" | "onWake"> & TriggerStore
  /** Called after successes were used, also on error: the commit may have succeeded. */
  wake(): void
}

export class Triggers extends DueLoop {
  readonly #options: TriggersOptions

  constructor(options: TriggersOptions) {
    super(options, "failed to create the runs of triggers; trying again")
    this.#options = options
  }

  protected override async pass(signal: AbortSignal): Promise<null> {
    const { store } = this.#options
    for (let after = 0; !signal.aborted;) {
      const triggers = await store.triggersWithSuccesses({ after, limit: PAGE })
      for (const trigger of triggers) while (await this.#fire(trigger));
      if (triggers.length < PAGE) break
      after = triggers.at(-1)!.id
    }
    return null
  }

  /** Returns whether more successes may be left than it has read. */
  async #fire(trigger: AfterTriggerRow): Promise<boolean> {
    const { store, wake } = this.#options
    const successes = await store.successesOf(trigger.id, MAX_SUCCESSES)
    const uses: SuccessUse[] = []
    for (const { causes, used } of groupCauses(trigger.spec, successes)) {
      const outcome = causes === null ? null : await planTriggeredRun(this.#options, trigger, occasionOf(causes))
      uses.push({ triggerId: trigger.id, successes: used.map(({ id }) => id), outcome })
    }
    if (uses.length === 0) return false
    await store.useSuccesses(uses).finally(wake)
    return successes.length === MAX_SUCCESSES
  }
}

/** Successes to remove. `causes`: those that cause a run together; null: newer ones replace them. */
interface CauseGroup {
  causes: UpstreamSuccess[] | null
  used: UpstreamSuccess[]
}

/**
 * Groups successes, oldest first, by the runs that they cause. With `any`, each causes a run. With `all`, the newest of each workflow cause
 * one together as soon as there is one of every workflow; until then only the newest of each is kept. The groups are the same whether the
 * successes are read one by one or, as after a restart, together.
 */
const groupCauses = ({ after, when }: AfterTrigger, successes: readonly UpstreamSuccess[]): CauseGroup[] => {
  if (when === "any") return successes.map((success) => ({ causes: [success], used: [success] }))
  const groups: CauseGroup[] = []
  let newest = new Map<string, UpstreamSuccess>()
  let used: UpstreamSuccess[] = []
  for (const success of successes) {
    newest.set(success.workflow, success)
    used.push(success)
    if (!after.every((name) => newest.has(name))) continue
    groups.push({ causes: after.map((name) => newest.get(name)!), used })
    newest = new Map()
    used = []
  }
  const replaced = used.filter((success) => newest.get(success.workflow) !== success)
  return replaced.length === 0 ? groups : [...groups, { causes: null, used: replaced }]
}

/** Returns the occasion of a run: it stands for the latest logical date of its causes. */
const occasionOf = (causes: readonly UpstreamSuccess[]): Occasion => {
  const latest = causes.reduce((best, each) => ((each.logicalDate ?? "") >= (best.logicalDate ?? "") ? each : best))
  const runs = causes.map(({ runId, workflow }) => ({ id: runId, workflow }))
  return { trigger: "after", cause: { runs }, logicalDate: latest.logicalDate, timezone: latest.timezone }
}

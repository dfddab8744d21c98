// The workflows of the campaigns. Their tasks write to the journal and never fail by themselves.

import type { Journal } from "./journal.ts"

const LOST_RETRIES = 1000

/** A workflow, and what the checks know about it. */
export interface Workload {
  name: string
  definition(journal: Journal): object
  /** Tasks of a run that succeeded, with its hook. */
  tasks: string[]
  /** Which task's output each task reads. */
  reads: Record<string, string>
}

/** The key that the client triggers a run with reaches the journal. */
export const KEYED = { params: { key: { type: "string", default: "-" } }, env: { KEY: "${{ params.key }}" } }

const HOOK = "on_success.0"

/** A chain with a fan-out and a hook, whose tasks take 0.1 s. */
export const CHAIN: Workload = {
  name: "chain",
  tasks: ["first", "items[0]", "items[1]", "last", HOOK],
  reads: { "items[0]": "first", "items[1]": "first", last: "items[0]" },
  definition(journal) {
    const task = { command: journal.script(), lost_retries: LOST_RETRIES }
    return {
      name: "chain",
      ...KEYED,
      tasks: {
        first: task,
        items: { ...task, depends_on: ["first"], parallel: 2, env: { SAW: "${{ tasks.first.output.by }}" } },
        last: { ...task, depends_on: ["items"], env: { SAW: "${{ tasks.items.output[0].by }}" } },
      },
      on_success: [task],
    }
  },
}

/** Two short tasks, one after the other. */
export const PAIR: Workload = {
  name: "pair",
  tasks: ["first", "last"],
  reads: { last: "first" },
  definition(journal) {
    const task = { command: journal.script({ ticks: 0 }), lost_retries: LOST_RETRIES }
    return {
      name: "pair",
      ...KEYED,
      tasks: { first: task, last: { ...task, depends_on: ["first"], env: { SAW: "${{ tasks.first.output.by }}" } } },
    }
  },
}

/** Two tasks, of which the second reads an output that is stored as an object. A failed attempt is retried. */
export const BULKY: Workload = {
  name: "bulky",
  tasks: ["first", "last"],
  reads: { last: "first" },
  definition(journal) {
    const retries = { retry: { max_attempts: 20, backoff: "fixed", base_delay: "1s" }, lost_retries: LOST_RETRIES }
    const fill = `head -c 100000 /dev/zero | tr '\\0' x`
    const bulky = `${journal.script({ ticks: 0 })}\necho "{\\"by\\":\\"$ORK_ATTEMPT_ID\\",\\"fill\\":\\"$(${fill})\\"}"`
    return {
      name: "bulky",
      ...KEYED,
      tasks: {
        first: { command: bulky, ...retries },
        last: {
          command: journal.script({ ticks: 0 }),
          ...retries,
          depends_on: ["first"],
          env: { SAW: "${{ tasks.first.output.by }}" },
        },
      },
    }
  },
}

export const TICK_MS = 2000

/** A schedule that catches up. The tick of a run reaches the journal as its key. */
export const TICKS: Workload = {
  name: "ticks",
  tasks: ["tick"],
  reads: {},
  definition: (journal) => ({
    name: "ticks",
    schedule: { cron: `*/${TICK_MS / 1000} * * * * *`, catchup: "all", overlap: "allow" },
    tasks: {
      tick: { command: journal.script({ ticks: 0 }), lost_retries: LOST_RETRIES, env: { KEY: "${{ run.logical_date }}" } },
    },
  }),
}

export const isHook = (task: string): boolean => task === HOOK

// Checks that the definitions of one program agree with each other.

import { type Definition, dedicatedQueue } from "./definitions.ts"

export const isDefinition = (value: unknown): value is Definition =>
  typeof value === "object" && value !== null && "kind" in value && KINDS.has(value.kind)

/** Throws for what is not a definition that a program can enqueue and run. `where`: the call that got it. */
export const checkIsDefinition = (value: unknown, where: string): void => {
  if (isDefinition(value)) return
  const given = typeof value === "object" || typeof value === "function" ? `a ${typeof value}` : JSON.stringify(value)
  throw new TypeError(`${where} takes what task, txTask, workflow, graph or yaml returned, not ${given}`)
}

const KINDS = new Set<unknown>(["task", "workflow", "graph"] satisfies Definition["kind"][])

/** Throws for what cannot be enqueued many at once. */
export const checkIsTask = (value: unknown): void => {
  checkIsDefinition(value, "enqueueAll")
  if ((value as Definition).kind !== "task")
    throw new TypeError(`enqueueAll takes a task; start the runs of ${(value as Definition).name} with enqueue`)
}

/** Throws when the option `run` is not a list of definitions. */
export const checkRun = (run: readonly Definition[]): void => {
  if (!Array.isArray(run))
    throw new TypeError("Ork.open: run must be a list of the definitions that this process runs; [] for none")
  for (const definition of run) checkIsDefinition(definition, "Ork.open: run")
}

/** Throws when two definitions have one name, or give one queue two rates. */
export const checkDefinitions = (definitions: readonly Definition[]): void => {
  const names = new Set<string>()
  /** The task that gives a queue its rate, by queue. */
  const rates = new Map<string, Rated>()
  for (const definition of definitions) {
    const { name } = definition
    if (names.has(name)) throw new TypeError(`Ork.open: two definitions in run have the name ${name}`)
    names.add(name)
    if (definition.kind !== "task" || definition.limit.rate === null) continue
    const { queue, limit } = definition
    const rated = { name, queue, ...limit.rate! }
    const other = rates.get(queue)
    if (other !== undefined) checkRates(other, rated)
    rates.set(queue, rated)
  }
}

interface Rated {
  name: string
  queue: string
  limit: number
  periodMs: number
}

const checkRates = (one: Rated, two: Rated): void => {
  const differ = one.limit !== two.limit || one.periodMs !== two.periodMs
  // Names such as send-email and send_email: nobody has decided that the tasks share a rate.
  const byChance = dedicatedQueue(one.name) === dedicatedQueue(two.name)
  if (!differ && !byChance) return
  throw new TypeError(
    `Ork.open: the tasks ${one.name} and ${two.name} both limit the rate of the queue ${one.queue}` +
      `${differ ? `, to ${ratio(one)} and ${ratio(two)}` : ""}: give one of them another queue (queue: "…")`,
  )
}

const ratio = ({ limit, periodMs }: Rated): string => `${limit} per ${periodMs} ms`

// Checks that the definitions of one program agree with each other.

import { type Definition, dedicatedQueue } from "./definitions.ts"

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

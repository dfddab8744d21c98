// `npm run sim -- [--store sqlite|postgres] [--seeds N] [--from K] [--every E] [--threads T]` runs N seeds from K on, or every E-th
// one, in a thread per core. `--seed K [--trace]` replays one seed, `--shrink K` finds a small world that violates the same invariant.
// The command stops when a seed violates an invariant, prints how to replay it and exits with 1; with `--keep-going` it runs all seeds
// and prints one line for each failure. Many seeds print their progress; the last line counts tries and violations.

import { availableParallelism } from "node:os"
import { parseArgs } from "node:util"
import { describeFailure, type Outcome, shrinkSeed, Simulator, STORES, type StoreKind } from "./simulator.ts"
import { Tally } from "./tally.ts"
import { playInThreads } from "./threads.ts"

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "sqlite" },
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    every: { type: "string", default: "1" },
    threads: { type: "string", default: String(availableParallelism()) },
    seed: { type: "string" },
    shrink: { type: "string" },
    trace: { type: "boolean", default: false },
    "keep-going": { type: "boolean", default: false },
  },
})

const number = (name: string, text: string): number => {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  console.error(`--${name} takes a whole number, not ${text}`)
  process.exit(2)
}

const print = (lines: readonly string[]): void => {
  for (const line of lines) console.log(line)
}

/** Returns whether the seed fails. */
const shrinkOne = async (simulator: Simulator, seed: number): Promise<boolean> => {
  const shrunk = await shrinkSeed(simulator, seed)
  if (shrunk === null) {
    console.log(`seed ${seed} passes: there is nothing to shrink`)
    return false
  }
  print([...shrunk.world, ...describeFailure(shrunk.outcome).slice(0, -1)])
  console.log(
    `seed ${seed}: ${shrunk.reductions} reductions kept of ${shrunk.tries} tried; the world above is the smallest that was found`,
  )
  return true
}

/** Returns whether the seed fails. */
const replay = async (simulator: Simulator, seed: number): Promise<boolean> => {
  const outcome = await simulator.run(seed, values.trace ? (line) => console.log(line) : null)
  print(describeFailure(outcome))
  if (outcome.failure !== null) return true
  console.log(`seed ${seed} passed: trace ${outcome.digest}, ${outcome.events} events, ${outcome.launches} launches`)
  return false
}

const withSimulator = async (kind: StoreKind, use: (simulator: Simulator) => Promise<boolean>): Promise<boolean> => {
  const simulator = await Simulator.create(kind)
  try {
    return await use(simulator)
  } finally {
    await simulator.close()
  }
}

/** Returns whether a seed fails. */
const playMany = async (kind: StoreKind): Promise<boolean> => {
  const keepGoing = values["keep-going"]
  const seeds = {
    from: number("from", values.from),
    count: number("seeds", values.seeds),
    every: number("every", values.every),
  }
  const since = performance.now()
  const tally = new Tally(seeds)
  const played = (outcome: Outcome): boolean => {
    const progress = tally.add(outcome)
    if (outcome.failure !== null) {
      if (keepGoing) console.log(`seed ${outcome.seed} failed: ${outcome.failure.message.split("\n")[0]}`)
      else if (tally.violations === 1) print(describeFailure(outcome))
    }
    if (progress !== null) console.log(progress)
    return outcome.failure === null || keepGoing
  }
  await playInThreads({ store: kind, seeds }, Math.max(1, number("threads", values.threads)), played)
  console.log(tally.summary((performance.now() - since) / 1000))
  return tally.violations > 0
}

const store = STORES.find((known) => known === values.store)
if (store === undefined) {
  console.error(`--store takes ${STORES.join(" or ")}, not ${values.store}`)
  process.exit(2)
}
const { shrink, seed } = values
const hasFailed =
  shrink !== undefined
    ? await withSimulator(store, (simulator) => shrinkOne(simulator, number("shrink", shrink)))
    : seed !== undefined
      ? await withSimulator(store, (simulator) => replay(simulator, number("seed", seed)))
      : await playMany(store)
process.exit(hasFailed ? 1 : 0)

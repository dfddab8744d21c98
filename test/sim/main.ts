// `npm run sim -- [--store sqlite|postgres] [--seeds N] [--from K] [--every E]` runs N seeds from K on, or every E-th one.
// `--seed K [--trace]` replays one seed, `--shrink K` finds a small world that violates the same invariant. The command stops at the first seed that violates an invariant, prints how to replay it and
// exits with 1; with `--keep-going` it runs all seeds and prints one line for each failure.

import { parseArgs } from "node:util"
import { describeFailure, shrinkSeed, Simulator, STORES } from "./simulator.ts"

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "sqlite" },
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    every: { type: "string", default: "1" },
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

const store = STORES.find((known) => known === values.store)
if (store === undefined) {
  console.error(`--store takes ${STORES.join(" or ")}, not ${values.store}`)
  process.exit(2)
}
const simulator = await Simulator.create(store)
let failed = 0
try {
  if (values.shrink !== undefined) {
    const seed = number("shrink", values.shrink)
    const shrunk = await shrinkSeed(simulator, seed)
    if (shrunk === null) console.log(`seed ${seed} passes: there is nothing to shrink`)
    else {
      for (const line of [...shrunk.world, ...describeFailure(shrunk.outcome).slice(0, -1)]) console.log(line)
      console.log(
        `seed ${seed}: ${shrunk.reductions} reductions kept of ${shrunk.tries} tried; the world above is the smallest that was found`,
      )
      failed = 1
    }
  } else if (values.seed !== undefined) {
    const outcome = await simulator.run(number("seed", values.seed), values.trace ? (line) => console.log(line) : null)
    for (const line of describeFailure(outcome)) console.log(line)
    if (outcome.failure !== null) failed = 1
    else
      console.log(
        `seed ${outcome.seed} passed: trace ${outcome.digest}, ${outcome.events} events, ${outcome.launches} launches`,
      )
  } else {
    const from = number("from", values.from)
    const count = number("seeds", values.seeds)
    const since = performance.now()
    let launches = 0
    const every = number("every", values.every)
    for (let seed = from; seed < from + count * every; seed += every) {
      const outcome = await simulator.run(seed)
      launches += outcome.launches
      if (outcome.failure === null) continue
      failed += 1
      if (!values["keep-going"]) {
        for (const line of describeFailure(outcome)) console.log(line)
        break
      }
      console.log(`seed ${seed} failed: ${outcome.failure.message.split("\n")[0]}`)
    }
    const seconds = (performance.now() - since) / 1000
    if (failed === 0) console.log(`${count} seeds passed, ${launches} launches, ${(count / seconds).toFixed(1)} seeds a second`)
    else if (values["keep-going"]) console.log(`${failed} of ${count} seeds failed`)
  }
} finally {
  await simulator.close()
}
process.exit(failed === 0 ? 0 : 1)

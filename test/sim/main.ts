// `npm run sim -- --seeds N [--from K] [--every E]` plays N seeds from K on, each or each E-th; `--seed K [--trace]` plays one
// again, bit for bit. `--keep-going` tells all that fail.
// The first seed that breaks an invariant is told with how to replay it, and ends the command with 1.

import { parseArgs } from "node:util"
import { type Outcome, Simulator } from "./simulate.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    every: { type: "string", default: "1" },
    seed: { type: "string" },
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

const report = ({ seed, failure, digest }: Outcome): void => {
  if (failure === null) return
  console.log(`seed ${seed} failed: ${failure.message}`)
  for (const line of failure.tail) console.log(`  ${line}`)
  for (const line of failure.state) console.log(line)
  console.log(`invariant: ${failure.invariant}`)
  console.log(`trace ${digest}; replay with: npm run sim -- --seed ${seed} --trace`)
}

const simulator = new Simulator()
let failed = 0
try {
  if (values.seed !== undefined) {
    const outcome = await simulator.run(number("seed", values.seed), values.trace ? (line) => console.log(line) : null)
    report(outcome)
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
        report(outcome)
        break
      }
      console.log(`seed ${seed} failed: ${outcome.failure.message.split("\n")[0]}`)
    }
    const seconds = (performance.now() - since) / 1000
    if (failed === 0) console.log(`${count} seeds passed, ${launches} launches, ${(count / seconds).toFixed(1)} seeds a second`)
    else if (values["keep-going"]) console.log(`${failed} of ${count} seeds failed`)
  }
} finally {
  simulator.close()
}
process.exit(failed === 0 ? 0 : 1)

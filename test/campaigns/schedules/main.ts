// `npm run schedules -- [--expressions N] [--zones N] [--windows N] [--days N] [--seed N]` compares the ticks of N expressions (1,000)
// in N time zones (all) from 2020 to 2040 with an oracle: for each of them N windows of three days (3) at clock changes and at another
// time, or with `--windows 0` all clock changes. Then it plays N days (3,653, ten years) of schedules with kills and clock steps. The
// last line counts; exit code 1 after a violation.

import { parseArgs } from "node:util"
import { withFolder } from "../campaign.ts"
import { compareOnAllCores } from "./parts.ts"
import { playYears } from "./years.ts"

const { values } = parseArgs({
  options: {
    expressions: { type: "string", default: "1000" },
    zones: { type: "string", default: "10000" },
    windows: { type: "string", default: "3" },
    days: { type: "string", default: "3653" },
    seed: { type: "string", default: "1" },
  },
})

const number = (flag: keyof typeof values): number => {
  const value = Number(values[flag])
  if (Number.isSafeInteger(value) && value >= 0) return value
  console.error(`--${flag} takes a whole number, not ${values[flag]}`)
  process.exit(2)
}

const MAX_SHOWN = 20

const seed = number("seed")
const all = Intl.supportedValuesOf("timeZone")
const count = Math.min(number("zones"), all.length)
/** Zones from the whole list. */
const zones = Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)]!)
const since = performance.now()
const compared = await compareOnAllCores({ seed, first: 0, count: number("expressions"), zones, windows: number("windows") })
for (const difference of compared.differences.slice(0, MAX_SHOWN)) console.log(difference)
console.log(
  `${compared.expressions} expressions in ${zones.length} zones: ${compared.windows} windows, ${compared.ticks} ticks, ${compared.differences.length} differences`,
)
const years = await withFolder((folder) => playYears({ days: number("days"), seed, folder }))
for (const violation of years.violations.slice(0, MAX_SHOWN)) console.log(violation)
console.log(
  `${number("days")} days: ${years.runs} runs, ${years.kills} kills, ${years.clockSteps} clock steps, ${years.violations.length} violations`,
)
const violations = compared.differences.length + years.violations.length
const minutes = ((performance.now() - since) / 60_000).toFixed(1)
console.log(`schedules: ${compared.ticks + years.ticks} ticks, ${violations} violations, ${minutes} minutes`)
process.exit(violations === 0 ? 0 : 1)

// Random cron expressions, as text for Ork and as sets of numbers for the oracle: no parser of expressions is involved.

import type { Rng } from "../../sim/rng.ts"

export interface Expression {
  text: string
  seconds: readonly number[]
  minutes: readonly number[]
  hours: readonly number[]
  days: ReadonlySet<number>
  months: ReadonlySet<number>
  weekdays: ReadonlySet<number>
  /** Both days and weekdays are restricted: a date needs to match one of them. */
  eitherDay: boolean
  /** Seconds, minutes and hours are numbers, lists or ranges. */
  hasFixedTimes: boolean
}

interface Field {
  text: string
  numbers: number[]
}

const numbersFrom = (from: number, to: number, step = 1): number[] =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step)

const star = (min: number, max: number): Field => ({ text: "*", numbers: numbersFrom(min, max) })

const single = (rng: Rng, min: number, max: number): Field => {
  const number = rng.int(min, max)
  return { text: String(number), numbers: [number] }
}

const range = (rng: Rng, min: number, max: number): Field => {
  const from = rng.int(min, max)
  const to = rng.int(from, max)
  return { text: `${from}-${to}`, numbers: numbersFrom(from, to) }
}

const list = (rng: Rng, min: number, max: number): Field => {
  const parts = Array.from({ length: rng.int(2, 3) }, () => (rng.chance(0.2) ? range : single)(rng, min, max))
  const numbers = new Set(parts.flatMap((part) => part.numbers))
  return { text: parts.map(({ text }) => text).join(","), numbers: [...numbers].toSorted((a, b) => a - b) }
}

const everyStep = (rng: Rng, min: number, max: number): Field => {
  const step = rng.int(2, Math.max(2, Math.floor((max - min) / 2)))
  return { text: `*/${step}`, numbers: numbersFrom(min, max, step) }
}

const rangeStep = (rng: Rng, min: number, max: number): Field => {
  const [from, step] = [rng.int(min, max - 1), rng.int(2, 5)]
  const to = rng.int(from + 1, max)
  return { text: `${from}-${to}/${step}`, numbers: numbersFrom(from, to, step) }
}

const timeField = (rng: Rng, min: number, max: number): Field => {
  const roll = rng.next()
  if (roll < 0.45) return single(rng, min, max)
  if (roll < 0.6) return list(rng, min, max)
  if (roll < 0.7) return range(rng, min, max)
  if (roll < 0.8) return star(min, max)
  return (roll < 0.92 ? everyStep : rangeStep)(rng, min, max)
}

const dayField = (rng: Rng, min: number, max: number, restricted: number): Field => {
  if (!rng.chance(restricted)) return star(min, max)
  const roll = rng.next()
  return roll < 0.4 ? single(rng, min, max) : roll < 0.75 ? list(rng, min, max) : range(rng, min, max)
}

const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]

/** Writes some fields with names. */
const withNames = (rng: Rng, field: Field, names: readonly string[], first: number): Field =>
  rng.chance(0.3) ? { ...field, text: field.text.replaceAll(/\d+/g, (number) => names[Number(number) - first]!) } : field

/** Writes some Sundays as 7. */
const withSeven = (rng: Rng, field: Field): Field => (field.text === "0" && rng.chance(0.5) ? { ...field, text: "7" } : field)

export const randomExpression = (rng: Rng): Expression => {
  const hasSeconds = rng.chance(0.1)
  const seconds = hasSeconds ? timeField(rng, 0, 59) : { text: "", numbers: [0] }
  const [minutes, hours] = [timeField(rng, 0, 59), timeField(rng, 0, 23)]
  const days = dayField(rng, 1, 31, 0.3)
  const months = withNames(rng, dayField(rng, 1, 12, 0.25), MONTHS, 1)
  const weekdays = withSeven(rng, withNames(rng, dayField(rng, 0, 6, 0.3), WEEKDAYS, 0))
  const times = hasSeconds ? [seconds, minutes, hours] : [minutes, hours]
  return {
    text: [...times, days, months, weekdays].map(({ text }) => text).join(" "),
    seconds: seconds.numbers,
    minutes: minutes.numbers,
    hours: hours.numbers,
    days: new Set(days.numbers),
    months: new Set(months.numbers),
    weekdays: new Set(weekdays.numbers),
    eitherDay: days.text !== "*" && weekdays.text !== "*",
    hasFixedTimes: times.every(({ text }) => !/[*/]/.test(text)),
  }
}

// Array parameters in the text format of Postgres.

const SPECIAL = /["\\\0]/

const element = (value: string): string =>
  SPECIAL.test(value) ? `"${replaceNul(value).replaceAll(/["\\]/g, String.raw`\$&`)}"` : `"${value}"`

/** Encodes a column of a batch. A column without any value becomes NULL, which `unnest` pads: rare columns cost nothing. */
const column = <T>(values: readonly (T | null)[], encode: (value: T) => string): string | null => {
  if (values.every((value) => value === null)) return null
  let text = "{"
  let previous: T | null = null
  let encoded = "NULL"
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!
    // Rows of a batch mostly share their texts.
    if (value !== previous) encoded = value === null ? "NULL" : encode(value)
    previous = value
    text += i === 0 ? encoded : `,${encoded}`
  }
  return `${text}}`
}

export const textArrayParam = (values: readonly (string | null)[]): string | null => column(values, element)

/** Encodes numbers, booleans, UUIDs and instants, which need no quotes. */
export const arrayParam = (values: readonly (string | number | boolean | null)[]): string | null => column(values, String)

/** Replaces NUL characters, which no text in Postgres can hold. */
export const replaceNul = (text: string): string => text.replaceAll("\0", "\uFFFD")

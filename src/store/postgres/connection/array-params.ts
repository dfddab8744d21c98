// Array parameters as Postgres reads them. A column of a batch is one parameter; a column without any value is NULL, which
// `unnest` fills up with NULLs, so that wide batches of narrow rows cost little.

const SPECIAL = /["\\\0]/

const element = (value: string): string =>
  SPECIAL.test(value) ? `"${replaceNul(value).replaceAll(/["\\]/g, String.raw`\$&`)}"` : `"${value}"`

const column = <T>(values: readonly (T | null)[], write: (value: T) => string): string | null => {
  if (values.every((value) => value === null)) return null
  let text = "{"
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!
    text += (i === 0 ? "" : ",") + (value === null ? "NULL" : write(value))
  }
  return `${text}}`
}

export const textArrayParam = (values: readonly (string | null)[]): string | null => column(values, element)

/** Numbers, booleans, uuids, instants: nothing in them needs quotes. */
export const arrayParam = (values: readonly (string | number | boolean | null)[]): string | null => column(values, String)

/** As `plain`, but an empty array is an empty set rather than NULL: for `= ANY`. */
export const anyParam = (values: Iterable<string | number>): string => `{${[...values].join(",")}}`

export const anyTextParam = (values: readonly string[]): string => `{${values.map(element).join(",")}}`

/** Postgres has no text with a NUL in it. */
export const replaceNul = (text: string): string => text.replaceAll("\0", "\uFFFD")

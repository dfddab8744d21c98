// Regular expressions of users, evaluated by RE2 in time proportional to the text. RE2 has no lookahead, lookbehind or backreferences.
// No other file imports re2js.

import { createRequire } from "node:module"
import { messageOf } from "./error-message.ts"
import { BoundedMap } from "./bounded-map.ts"

const require = createRequire(import.meta.url)

export interface Pattern {
  test(text: string): boolean
  /** Returns the source, by which ajv identifies patterns. */
  toString(): string
}

const cache = new BoundedMap<string, Pattern>(1000)

/** Compiles a pattern in the syntax of JavaScript. Throws an error that names the pattern. */
export const compilePattern = (source: string): Pattern => cache.getOrCreate(source, () => compile(source))

const compile = (source: string): Pattern => {
  const { RE2JS } = require("re2js") as typeof import("re2js")
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(source))
    return { test: (text) => compiled.matcher(text).find(), toString: () => source }
  } catch (error) {
    const reason = messageOf(error).replace(/^error parsing regexp: /, "")
    throw new Error(
      `the pattern ${JSON.stringify(source)} is not valid: ${reason} (the syntax is RE2, without lookaround and backreferences)`,
      { cause: error },
    )
  }
}

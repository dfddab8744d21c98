// Tables of the operators and functions of expressions. Each example is evaluated by Ork's own evaluator, and the table shows its result.

import { celEnv } from "@bufbuild/cel"
import { strings } from "@bufbuild/cel/ext"
import { fromCel, parseCel } from "../../../src/core/expressions/cel.ts"
import { codeText, markdownTable } from "./table.ts"

/** Meaning and examples of functions, by name. */
type Functions = Readonly<Record<string, readonly [about: string, ...examples: string[]]>>

const OPERATORS: Functions = {
  "+ - * / %": [
    "arithmetic on two ints or two doubles; `+` also joins texts and lists",
    "7 / 2",
    "7.0 / 2.0",
    "[1] + [2]",
    '"a" + "b"',
  ],
  "== != < <= > >=": ["comparison; ints and doubles compare by value", "1 == 1.0", '"a" < "b"'],
  "&& || !": ["logic", "true && !false"],
  "? :": ["choice", '3 > 2 ? "yes" : "no"'],
  in: ["membership in a list, or a key of a map", "2 in [1, 2]", '"a" in {"a": null}'],
  "a.b a[b]": ["field of a map, item of a list from 0", '{"a": [4, 5]}.a[1]'],
}

const MACROS: Functions = {
  has: ["whether a map has a field, also if it is null", 'has({"a": null}.a)', 'has({"a": 1}.b)'],
  all: ["whether a condition holds for every item", "[1, 2].all(x, x > 0)"],
  exists: ["whether it holds for some item", "[1, 2].exists(x, x > 1)"],
  exists_one: ["whether it holds for exactly one item", "[1, 2].exists_one(x, x > 0)"],
  map: ["each item, changed", "[1, 2].map(x, x * 10)"],
  filter: ["the items for which a condition holds", "[1, 2, 3].filter(x, x > 1)"],
}

const FUNCTIONS: Readonly<Record<string, Functions>> = {
  Conversions: {
    int: ["whole number, from a text or a number", 'int("42")', "int(3.9)"],
    uint: ["unsigned whole number", 'uint("42")'],
    double: ["number with a fraction", 'double("1.5")', "double(2)"],
    string: ["text", "string(42)"],
    bool: ["true or false, from a text", 'bool("true")'],
    bytes: ["bytes of a text; as a result, in base64", 'bytes("abc")'],
    timestamp: ["time, from a text or from seconds since 1970", 'timestamp("2026-01-31T10:00:00Z")', "timestamp(0)"],
    duration: ["length of time", 'duration("1h30m")', 'timestamp("2026-01-31T10:00:00Z") + duration("24h")'],
    type: ["type of a value, for comparisons", "type(1) == int"],
    dyn: ["a value whose type is not checked", "dyn(1)"],
  },
  Lists: {
    size: ["length of a list, map or text", "size([1, 2])", 'size("né")'],
    join: ["the texts of a list as one", '["a", "b"].join(", ")'],
  },
  Texts: {
    contains: ["whether a text contains another", '"report.csv".contains("port")'],
    startsWith: ["whether it begins with another", '"report.csv".startsWith("rep")'],
    endsWith: ["whether it ends with another", '"report.csv".endsWith(".csv")'],
    matches: ["whether a regular expression (RE2) matches a part of it", '"a-12".matches("^a-[0-9]+$")'],
    charAt: ["character at a position", '"abc".charAt(1)'],
    indexOf: [
      "position of a part, from an optional position on; -1: none",
      '"banana".indexOf("an")',
      '"banana".indexOf("an", 2)',
    ],
    lastIndexOf: ["last position of a part; -1: none", '"banana".lastIndexOf("an")'],
    lowerAscii: ["lower case, of ASCII letters", '"ABC".lowerAscii()'],
    upperAscii: ["upper case, of ASCII letters", '"abc".upperAscii()'],
    replace: [
      "a part replaced, at most so many times if a number is given",
      '"a-b-c".replace("-", "_")',
      '"a-b-c".replace("-", "_", 1)',
    ],
    split: [
      "the parts between separators, at most so many if a number is given",
      '"a,b,c".split(",")',
      '"a,b,c".split(",", 2)',
    ],
    substring: [
      "a part, from a position to an optional other one",
      '"report.csv".substring(7)',
      '"report.csv".substring(0, 6)',
    ],
    trim: ["without white space at both ends", '"  a ".trim()'],
    format: ["values inserted into a text", '"%s has %d rows".format(["eu", 12])'],
    "strings.quote": ["in double quotes, with escapes", 'strings.quote("a\\nb")'],
  },
  Times: {
    getFullYear: ["year", 'timestamp("2026-01-31T10:00:00Z").getFullYear()'],
    getMonth: ["month, from 0", 'timestamp("2026-01-31T10:00:00Z").getMonth()'],
    getDate: ["day of the month, from 1", 'timestamp("2026-01-31T10:00:00Z").getDate()'],
    getDayOfMonth: ["day of the month, from 0", 'timestamp("2026-01-31T10:00:00Z").getDayOfMonth()'],
    getDayOfWeek: ["day of the week; Sunday is 0", 'timestamp("2026-01-31T10:00:00Z").getDayOfWeek()'],
    getDayOfYear: ["day of the year, from 0", 'timestamp("2026-01-31T10:00:00Z").getDayOfYear()'],
    getHours: [
      "hour, in UTC or a time zone; of a duration: all hours",
      'timestamp("2026-01-31T10:00:00Z").getHours("Europe/Berlin")',
    ],
    getMinutes: ["minute; of a duration: all minutes", 'duration("1h30m").getMinutes()'],
    getSeconds: ["second; of a duration: all seconds", 'timestamp("2026-01-31T10:00:07Z").getSeconds()'],
    getMilliseconds: ["milliseconds within the second", 'timestamp("2026-01-31T10:00:00.250Z").getMilliseconds()'],
  },
}

/** Throws if a function of the library has no description. */
export const celFunctionTables = (): Record<string, string> => {
  const described = Object.values(FUNCTIONS).flatMap(Object.keys)
  const names = [...celEnv({ funcs: strings }).funcs].map(({ name }) => name).filter((name) => /^[A-Za-z]/.test(name))
  const missing = names.filter((name) => !described.includes(name))
  if (missing.length > 0) throw new Error(`functions without a description: ${missing.join(", ")}`)
  const sections = Object.entries(FUNCTIONS).map(([title, functions]) => `### ${title}\n\n${functionTable(functions)}`)
  return { operators: functionTable(OPERATORS), macros: functionTable(MACROS), functions: sections.join("\n\n") }
}

const functionTable = (functions: Functions): string =>
  markdownTable(
    ["name", "meaning", "examples"],
    Object.entries(functions).map(([name, [about, ...examples]]) => [
      codeText(name),
      about,
      examples
        .map((example) => `${codeText(example)} is ${codeText(JSON.stringify(fromCel(parseCel(example).program()({}))))}`)
        .join(", "),
    ]),
  )

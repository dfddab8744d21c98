// Runs the public conformance tests of CEL (package @bufbuild/cel-spec) on expressions as Ork evaluates them. Left out are tests of what
// Ork does not have: protobuf messages and enums, containers, optional values, and the extensions other than strings.

import { getConformanceSuite, type IncrementalTest } from "@bufbuild/cel-spec/testdata/tests.js"
import { isCelError, isCelList, isCelMap, isCelType, isCelUint } from "@bufbuild/cel"
import { parseCel } from "../cel.ts"

const FILES =
  "basic comparisons conversions fields fp_math integer_math lists logic macros parse plumbing string string_ext timestamps"

/** Calls of functions that do not exist, which Ork rejects before it evaluates anything. */
const REJECTED = /unbound_is_runtime_error|receiver_function_names/

const UNAVAILABLE = /TestAllTypes|google\.protobuf|GlobalEnum|NestedEnum|\.\?|\[\?|optional|cel\.bind|base64|getMilliseconds/

export interface ConformanceTest {
  name: string
  test: IncrementalTest["original"]
}

export const conformanceTests = (): ConformanceTest[] =>
  getConformanceSuite()
    .suites.filter(({ name }) => FILES.split(" ").includes(name))
    .flatMap((file) =>
      file.suites.flatMap((section) =>
        section.tests.map(({ original, name }) => ({ name: `${file.name}/${section.name}/${name}`, test: original })),
      ),
    )
    .filter(({ name, test }) => test.container === "" && !UNAVAILABLE.test(test.expr) && !REJECTED.test(name))

type Value = NonNullable<Extract<IncrementalTest["original"]["resultMatcher"], { case: "value" }>["value"]>

/** Returns a text that is the same for equal values of the same type. */
export const describeExpected = ({ kind }: Value): string => {
  switch (kind.case) {
    case "nullValue":
      return "null"
    case "boolValue":
      return String(kind.value)
    case "int64Value":
      return `int ${kind.value}`
    case "uint64Value":
      return `uint ${kind.value}`
    case "doubleValue":
      return `double ${kind.value}`
    case "stringValue":
      return JSON.stringify(kind.value)
    case "bytesValue":
      return `bytes ${Buffer.from(kind.value).toString("hex")}`
    case "listValue":
      return `[${kind.value.values.map(describeExpected).join(", ")}]`
    case "mapValue":
      return `{${kind.value.entries
        .map(({ key, value }) => `${describeExpected(key!)}: ${describeExpected(value!)}`)
        .toSorted()
        .join(", ")}}`
    case "typeValue":
      return `type ${kind.value}`
    default:
      // Timestamps and durations: the tests of their functions compare them with texts.
      return kind.case ?? "nothing"
  }
}

const describeValue = (value: unknown): string => {
  if (value === null || typeof value === "boolean") return String(value)
  if (typeof value === "bigint") return `int ${value}`
  if (typeof value === "number") return `double ${Object.is(value, -0) ? 0 : value}`
  if (typeof value === "string") return JSON.stringify(value)
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString("hex")}`
  if (isCelUint(value)) return `uint ${value.value}`
  if (isCelType(value)) return `type ${value.name}`
  if (isCelList(value)) return `[${[...value].map(describeValue).join(", ")}]`
  if (isCelMap(value)) {
    return `{${[...value.entries()]
      .map(([key, item]) => `${describeValue(key)}: ${describeValue(item)}`)
      .toSorted()
      .join(", ")}}`
  }
  return "objectValue"
}

/** Evaluates the expression of a test with its variables. Returns the value as a text, or `error`. */
export const evaluateTest = ({ test }: ConformanceTest): string => {
  try {
    const bindings = Object.entries(test.bindings).map(([name, { kind }]) => [name, toInput((kind as { value: Value }).value)])
    const result = parseCel(test.expr).program()(Object.fromEntries(bindings) as never)
    return isCelError(result) ? "error" : describeValue(result)
  } catch {
    return "error"
  }
}

const toInput = ({ kind }: Value): unknown => {
  switch (kind.case) {
    case "listValue":
      return kind.value.values.map(toInput)
    case "mapValue":
      return new Map(kind.value.entries.map(({ key, value }) => [toInput(key!), toInput(value!)]))
    case "nullValue":
      return null
    default:
      return kind.value
  }
}

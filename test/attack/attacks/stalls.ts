// Requests that try to block the server or to exhaust its memory.

import { type Attack, stall } from "../attack.ts"
import type { Target } from "../target.ts"

const open = (target: Target, path: string, body: string) => target.call("POST", path, { key: null, body })

const validate = (target: Target, definition: unknown) =>
  target.call("POST", "/workflows/validate", { body: definition }).catch((error: unknown) => error)

const withParam =
  (schema: object, value: unknown) =>
  async (target: Target): Promise<void> => {
    const rejected = await target.deploy({ name: "schema", params: { v: schema }, tasks: { a: { command: "true" } } })
    if (rejected === null)
      await target.call("POST", "/workflows/schema/runs", { body: { params: { v: value } } }).catch(() => {})
  }

const task = (command: unknown) => ({ name: "v", params: { v: { type: "string" } }, tasks: { a: { command } } })

export const stallAttacks: Attack[] = [
  stall("stall: 1 MB of long numbers on an open route", (target) =>
    Promise.all(
      ["/ui/sign-in", "/internal/task-result", "/hooks/x"].map((path) =>
        open(target, path, `{"a":[${"1".repeat(1_000_000)}]}`),
      ),
    ),
  ),
  stall("stall: 90,000 keys on an open route", (target) =>
    open(target, "/ui/sign-in", JSON.stringify(Object.fromEntries(Array.from({ length: 90_000 }, (_, i) => [`k${i}`, 1])))),
  ),
  stall("stall: deeply nested JSON on an open route", (target) => open(target, "/ui/sign-in", "[".repeat(500_000))),
  stall("stall: 45 large requests at once", (target) =>
    Promise.all(
      Array.from({ length: 45 }, () => open(target, "/ui/sign-in", `{"key":"${"x".repeat(900_000)}"}`).catch(() => {})),
    ),
  ),
  stall("stall: a pattern with exponential backtracking", (target) =>
    validate(target, {
      name: "v",
      params: { v: { type: "string", pattern: "^(a+)+$", default: `${"a".repeat(60)}!` } },
      tasks: { a: { command: "true" } },
    }),
  ),
  stall("stall: the same pattern at a trigger", withParam({ type: "string", pattern: "^(a+)+$" }, `${"a".repeat(60)}!`)),
  stall("stall: the same pattern in an expression", async (target) => {
    const tasks = { a: { if: `params.v.matches("^(a+)+$")`, command: "true" } }
    if ((await target.deploy({ name: "matching", params: { v: { type: "string" } }, tasks })) !== null) return
    await target.run("matching", { v: `${"a".repeat(60)}!` })
  }),
  stall("stall: a command of 40,000 exclamation marks", (target) => validate(target, task("! ".repeat(40_000)))),
  stall("stall: a command of 16,000 expressions", (target) => validate(target, task("-c ${{ params.v }} ".repeat(16_000)))),
  stall("stall: 20,000 patternProperties", (target) =>
    validate(target, {
      name: "v",
      params: {
        v: { type: "object", patternProperties: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`^k${i}$`, {}])) },
      },
      tasks: { a: { command: "true" } },
    }),
  ),
  stall(
    "stall: uniqueItems over 20,000 objects",
    withParam(
      { type: "array", uniqueItems: true },
      Array.from({ length: 20_000 }, (_, i) => ({ i })),
    ),
  ),
  stall("stall: 8,000 unknown dependencies", (target) =>
    validate(target, {
      name: "v",
      tasks: Object.fromEntries(Array.from({ length: 8000 }, (_, i) => [`t${i}`, { command: "true", depends_on: [`no${i}`] }])),
    }),
  ),
  stall("stall: 8,000 schedules", (target) =>
    validate(target, {
      name: "v",
      schedules: Array.from({ length: 8000 }, () => ({ cron: "0 0 29 2 1" })),
      tasks: { a: { command: "true" } },
    }),
  ),
  stall("stall: a YAML bomb", (target) => {
    const levels = Array.from(
      { length: 30 },
      (_, i) =>
        `a${i}: &a${i} [${
          i === 0
            ? "x"
            : Array(9)
                .fill(`*a${i - 1}`)
                .join(",")
        }]`,
    )
    return target
      .call("POST", "/workflows/validate", { body: levels.join("\n"), headers: { "content-type": "application/yaml" } })
      .catch(() => {})
  }),
  stall("stall: an expression over 900 KB", async (target) => {
    const grown = Array(40).fill("params.v").join(" + ")
    const tasks = { a: { command: `echo \${{ size(${grown}) }}`, timeout: "10s" } }
    if ((await target.deploy({ name: "growing", params: { v: { type: "string" } }, tasks })) !== null) return
    await target.run("growing", { v: "x".repeat(900_000) })
  }),
]

import { expect, test, onTestFinished } from "vitest"
import { DefinitionThread } from "./definition-thread.ts"

const setup = (timeoutMs?: number): DefinitionThread => {
  const thread = new DefinitionThread(timeoutMs === undefined ? {} : { timeoutMs })
  onTestFinished(() => thread.stop())
  return thread
}

const HELLO = "name: hello\ntasks: { hello: { command: echo hello } }"

test("a definition is compiled in the thread", async () => {
  const thread = setup()
  expect(await thread.parse(HELLO, { format: "yaml" })).toMatchObject({ ok: true, workflow: { name: "hello" } })
  expect(await thread.parse("name: hello", { format: "yaml" })).toMatchObject({ ok: false })
})

test("a definition that takes too long is a problem, and the next one is compiled", async () => {
  const thread = setup(50)
  const tasks = Object.fromEntries(Array.from({ length: 6000 }, (_, i) => [`t${i}`, { command: `echo \${{ params.x }} ${i}` }]))
  const slow = await thread.parse(JSON.stringify({ name: "slow", params: { x: 1 }, tasks }), { format: "json" })
  expect(slow).toMatchObject({
    ok: false,
    problems: [{ message: expect.stringContaining("took longer than 50 ms") as string }],
  })
  const other = setup()
  expect(await other.parse(HELLO, { format: "yaml" })).toMatchObject({ ok: true })
})

/** Inputs that took seconds to minutes, or never ended. */
const SLOW = {
  "a pattern with nested repetition": { params: { x: { pattern: "^(a+)+$", type: "string", default: `${"a".repeat(40)}!` } } },
  "40,000 negations": { command: `${"! ".repeat(40_000)}ls` },
  "16,000 options with expressions": { command: `echo ${"-c ${{ params.x }} ".repeat(16_000)}` },
  "20,000 patterns of properties": {
    output: { patternProperties: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`^a${i}`, {}])) },
  },
  "a list of 20,000 unique objects": {
    params: { x: { type: "array", uniqueItems: true, default: Array.from({ length: 20_000 }, (_, a) => ({ a })) } },
  },
  "40,000 unknown dependencies": { depends_on: Array.from({ length: 40_000 }, (_, i) => `x${i}`) },
  "8,000 schedules": { schedule: Array.from({ length: 8000 }, (_, i) => `${i % 60} ${i % 24} ${1 + (i % 28)} * *`) },
  "40,000 nested substitutions": { command: "echo $(".repeat(40_000) },
}

test.each(Object.entries(SLOW))("%s are compiled or rejected while the server keeps running", async (_, given) => {
  const thread = setup()
  const { params = { x: 1 }, schedule, ...task } = given as { params?: object; schedule?: string[] }
  let ticks = 0
  let latest = performance.now()
  let longest = 0
  const timer = setInterval(() => {
    ticks += 1
    longest = Math.max(longest, performance.now() - latest)
    latest = performance.now()
  }, 5)
  onTestFinished(() => clearInterval(timer))
  const definition = {
    name: "slow",
    params,
    ...(schedule !== undefined && { schedule }),
    tasks: { t: { command: "ls", ...task } },
  }
  const parsed = await thread.parse(JSON.stringify(definition), { format: "json" })
  expect(typeof parsed.ok).toBe("boolean")
  expect(ticks).toBeGreaterThan(0)
  expect(longest).toBeLessThan(2000)
})

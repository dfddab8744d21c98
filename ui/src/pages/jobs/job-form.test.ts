import { expect, test } from "vitest"
import { NO_TEXTS, readJob } from "./job-form.ts"

const ID = "01890a5d-ac96-774b-bcce-b302099a8057"

test("a complete form becomes the request", () => {
  const texts = {
    ...NO_TEXTS,
    name: " Mail ",
    queue: "mail",
    payload: '{"to": 1}',
    dependencies: `${ID}, ${ID}`,
    command: "true",
  }
  expect(readJob(texts)).toEqual({
    problems: {},
    job: {
      name: "Mail",
      queue: "mail",
      priority: 5,
      payload: { to: 1 },
      dependencies: [ID, ID],
      retry_policy: { max_attempts: 3, backoff_strategy: "EXPONENTIAL" },
      task: { command: "true" },
    },
  })
})

test("an empty form reports missing fields and sends neither payload nor task", () => {
  const { job, problems } = readJob(NO_TEXTS)
  expect(Object.keys(problems)).toEqual(["name", "queue"])
  expect("payload" in job || "task" in job).toBe(false)
})

test.each([
  ["queue", "a-b", /letters, digits/],
  ["payload", "{", /^is not JSON/],
  ["dependencies", "123", /^123 is no id/],
  ["attempts", "0", /1 to 10/],
  ["attempts", "1.5", /1 to 10/],
] as const)("%s with %j is refused", (field, text, problem) => {
  expect(readJob({ ...NO_TEXTS, name: "a", queue: "q", [field]: text }).problems[field]).toMatch(problem)
})

import { functionStopTests } from "../conformance/function-stopping.ts"
import { spawnSync } from "node:child_process"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type FunctionFixture, functionFixture, launcherFor } from "../conformance/function-fixture.ts"
import { functionTests } from "../conformance/functions.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

const SIGNATURES = `
from typing import Optional
def none(): return "no arguments"
def one(input): return input
def both(data, ctx): return [data, ctx.task_name]
def with_context_by_name(*, ctx, name): return [ctx.task_name, name]
def keywords(*, name, times, mark="!"): return [name, times, mark]
def defaults(name="nobody", times=1): return [name, times]
def input_and_keyword(input, times=1): return [input, times]
def rest(input, /, name, **more): return [input, more]
def everything(*values, **named): return [len(values), {} if named == values[0] else named]

class ModelTwo:
    def __init__(self, name, times): self.name, self.times = name, times
    @classmethod
    def model_validate(cls, value):
        if not isinstance(value.get("name"), str): raise ValueError("name must be a text")
        return cls(value["name"], value["times"])
    def model_dump(self, mode): return {"greeting": "Hello " + self.name, "times": self.times}
class ModelOne:
    def __init__(self, name, times): self.name, self.times = name, times
    @classmethod
    def parse_obj(cls, value):
        if not isinstance(value.get("name"), str): raise ValueError("name must be a text")
        return cls(value["name"], value["times"])
    def json(self): return '{"greeting": "Hello %s", "times": %d}' % (self.name, self.times)
def version_2(input: ModelTwo) -> ModelTwo: return input
def version_1(input: ModelOne) -> ModelOne: return input
def optional(input: Optional[ModelTwo]): return input
def by_text(input: "ModelTwo"): return input
import ork
@ork.task
def decorated(input, ctx): return [input, ctx.task_name]
@ork.task
def decorated_model(input: ModelTwo): return input
def nested(input: ModelTwo): return {**input.model_dump("json"), "inner": [input]}
`

const PYDANTIC = `
from datetime import datetime
from pydantic import BaseModel
class Greet(BaseModel):
    message: str
    at: datetime
class Input(BaseModel):
    greet: Greet
    adjective: str = "fast"
class Output(BaseModel):
    line: str
    greet: Greet
def main(input: Input) -> Output:
    return Output(line=f"{input.greet.message}, {input.adjective}", greet=input.greet)
`

describe("a child that a function forks", () => {
  test("does not report in its place", async () => {
    const fixture = await functionFixture(pythonRuntime, "native")
    const { run, put } = launcherFor(python, () => fixture)
    put("functions.py", python.functions)
    expect(await run("fork")).toMatchObject({ state: "success", output: { inline: "parent" } })
    expect(await run("fork_and_fail")).toMatchObject({ state: "success", output: { inline: 1 } })
    expect(await run("echo", { input: "mine" })).toMatchObject({ state: "success", output: { inline: "mine" } })
    await fixture.cleanup()
  })
})

describe("the arguments of a function", () => {
  let fixture: FunctionFixture
  const { run, put } = launcherFor(python, () => fixture)

  beforeAll(async () => {
    fixture = await functionFixture(pythonRuntime, "native")
    put("functions.py", SIGNATURES)
  })
  afterAll(() => fixture.cleanup())

  const input = { name: "Ada", times: 2 }
  test.each([
    ["none", "no arguments"],
    ["one", input],
    ["both", [input, "task"]],
    ["decorated", [input, "task"]],
    ["with_context_by_name", ["task", "Ada"]],
    ["keywords", ["Ada", 2, "!"]],
    ["defaults", ["Ada", 2]],
    ["input_and_keyword", [input, 2]],
    ["rest", [input, { times: 2 }]],
    ["everything", [2, {}]],
  ])("%s gets as many as its signature takes", async (name, output) => {
    expect(await run(name, { input })).toMatchObject({ state: "success", output: { inline: output } })
  })

  test("a missing keyword fails the task with its name", async () => {
    const failed = await run("keywords", { input: {} })
    expect([failed.state, failed.error]).toEqual(["failed", expect.stringContaining("'name' and 'times'")])
  })

  test.each(["version_2", "version_1", "optional", "by_text", "nested", "decorated_model"])(
    "a model is validated and dumped: %s",
    async (name) => {
      expect(await run(name, { input })).toMatchObject({
        state: "success",
        output: { inline: { greeting: "Hello Ada", times: 2 } },
      })
      const bad = await run(name, { input: { name: 5 } })
      expect(bad).toMatchObject({
        state: "failed",
        retryable: false,
        error: expect.stringMatching(/^the input does not fit Model\w+: /),
      })
    },
  )
})

const hasPydantic = spawnSync("python3", ["-c", "import pydantic"]).status === 0

describe.skipIf(!hasPydantic)("models of the installed pydantic", () => {
  test("are validated on input, with nested models, and dumped on output", async () => {
    const fixture = await functionFixture(pythonRuntime, "native")
    const { run, put } = launcherFor(python, () => fixture)
    put("functions.py", PYDANTIC)
    const upstream = { message: "Hello", at: "2026-01-02T03:04:05" }
    expect(await run(null, { input: { greet: upstream, other: 1 } })).toMatchObject({
      state: "success",
      output: { inline: { line: "Hello, fast", greet: upstream } },
    })
    const missing = await run(null, { input: { other: 1 } })
    expect(missing).toMatchObject({ state: "failed", retryable: false, error: expect.stringContaining("greet") })
    await fixture.cleanup()
  })
})

functionTests(python, () => functionFixture(pythonRuntime, "native"))

functionStopTests({ language: python, make: (options) => functionFixture(pythonRuntime, "native", options), limits: true })

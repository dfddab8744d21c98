// The checks of jobs and functions find what they look for.

import { expect, test } from "vitest"
import type { Entry } from "../journal.ts"
import { stepProblems, type StepEntry } from "./functions.ts"
import { jobProblems, together } from "./jobs.ts"

const entry = (run: string, phase: Entry["phase"], attempt = 1): Entry => ({
  run,
  task: "work",
  attempt,
  attemptId: `${run}-${attempt}`,
  phase,
  key: run,
  saw: "-",
})
const FIRST = { id: "a", key: "a", dependency: null }
const SECOND = { id: "b", key: "b", dependency: "a" }
const RIGHT = [entry("a", "start"), entry("a", "end"), entry("b", "start"), entry("b", "end")]

test("a job that did not run, or ran before the one that it depends on, is a violation", () => {
  expect(jobProblems(SECOND, "COMPLETED", RIGHT)).toEqual([])
  expect(jobProblems(SECOND, "FAILED", RIGHT)).toEqual(["job b (b) is FAILED"])
  expect(jobProblems(FIRST, "COMPLETED", [entry("a", "start")])).toEqual([expect.stringContaining("no attempt of it ended")])
  expect(jobProblems(SECOND, "COMPLETED", RIGHT.toReversed())).toEqual([expect.stringContaining("before its dependency")])
})

test("two jobs with one concurrency key that run at once are a violation, and a lost attempt is none", () => {
  const jobs = [SECOND, { ...SECOND, id: "c", key: "c" }]
  const lost = [entry("b", "start"), entry("c", "start"), entry("c", "end"), entry("b", "start", 2), entry("b", "end", 2)]
  expect(together(lost, jobs)).toEqual([])
  expect(together([entry("b", "start"), entry("c", "start"), entry("b", "tick")], jobs)).toEqual([
    "job b and job c, which share a concurrency key, ran at once",
  ])
})

test("a step that runs again after the next one began, or reads another result, is a violation", () => {
  const step = (name: string, token: string, saw: string): StepEntry => ({ key: "k", step: name, token, saw })
  const right = [step("first", "1", "-"), step("first", "2", "-"), step("called", "3", "2"), step("last", "4", "3")]
  const result = { first: "2", called: "3", last: "4" }
  expect(stepProblems("k", result, right)).toEqual([])
  expect(stepProblems("k", null, right)).toEqual(["function k succeeded, and has no result"])
  expect(stepProblems("k", { ...result, last: "5" }, right)).toEqual([expect.stringContaining("no try of last")])
  expect(stepProblems("k", result, [...right, step("first", "6", "-")])).toEqual([expect.stringContaining("first ran again")])
  expect(stepProblems("k", result, [...right, step("last", "6", "1")])).toEqual([expect.stringContaining("last read 1, not 3")])
})

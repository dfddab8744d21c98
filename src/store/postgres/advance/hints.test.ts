import { describe, expect, it } from "vitest"
import { allowsOneRoundTrip, expectsPendingWork, FIRST_HINTS, type LoopHints, nextHints, type TurnState } from "./hints.ts"

const QUIET: LoopHints = { pendingWork: false, gateReady: false, dueAt: null, readyDrained: false }
const NOTHING: TurnState = {
  localNow: 1_000,
  dueMs: null,
  cancelling: 0,
  gateReady: false,
  gatesClaimed: 0,
  gateMaxClaims: 10,
  readyDrained: false,
}

describe("nextHints", () => {
  it.each<[string, Partial<LoopHints>, Partial<TurnState>, LoopHints]>([
    ["a quiet turn expects nothing", {}, {}, QUIET],
    ["nothing of the first hints stays", FIRST_HINTS, {}, QUIET],
    ["a later timer sets its time", {}, { dueMs: 50 }, { ...QUIET, dueAt: 1_050 }],
    ["a due timer is pending work", {}, { dueMs: 0 }, { ...QUIET, pendingWork: true, dueAt: 1_000 }],
    ["an overdue timer is pending work", {}, { dueMs: -5 }, { ...QUIET, pendingWork: true, dueAt: 995 }],
    ["a timer of the past turn is forgotten", { dueAt: 2_000 }, {}, QUIET],
    ["a run that is being cancelled is pending work", {}, { cancelling: 1 }, { ...QUIET, pendingWork: true }],
    ["rows for the gate are expected again", {}, { gateReady: true }, { ...QUIET, gateReady: true }],
    ["a gate that claimed may claim more", {}, { gatesClaimed: 1 }, { ...QUIET, gateReady: true }],
    ["a gate without room keeps its expectation", { gateReady: true }, { gateMaxClaims: 0 }, { ...QUIET, gateReady: true }],
    ["a gate without room expects nothing new", {}, { gateMaxClaims: 0 }, QUIET],
    ["a drained queue is remembered", {}, { readyDrained: true }, { ...QUIET, readyDrained: true }],
    ["a drained queue is forgotten", { readyDrained: true }, {}, QUIET],
    ["a gate with room that found nothing expects nothing", { gateReady: true }, {}, QUIET],
  ])("%s", (_, previous, observed, expected) => {
    expect(nextHints({ ...QUIET, ...previous }, { ...NOTHING, ...observed })).toEqual(expected)
  })
})

describe("expectsPendingWork", () => {
  it.each<[string, LoopHints, boolean]>([
    ["nothing is expected of a quiet store", QUIET, false],
    ["anything may be pending at the first turn", FIRST_HINTS, true],
    ["a timer of the future is not pending", { ...QUIET, dueAt: 1_001 }, false],
    ["a timer is pending from its time on", { ...QUIET, dueAt: 1_000 }, true],
  ])("%s", (_, hints, expected) => {
    expect(expectsPendingWork(hints, 1_000)).toBe(expected)
  })
})

describe("allowsOneRoundTrip", () => {
  const DRAINED: LoopHints = { ...QUIET, readyDrained: true }

  it.each<[string, LoopHints, boolean]>([
    ["a turn after a drained queue may", DRAINED, true],
    ["a turn with rows left to claim may not", QUIET, false],
    ["a turn with rows for the gate may not", { ...DRAINED, gateReady: true }, false],
    ["a turn with a due timer may not", { ...DRAINED, dueAt: 1_000 }, false],
  ])("%s", (_, hints, expected) => {
    expect(allowsOneRoundTrip(hints, 1_000)).toBe(expected)
  })
})

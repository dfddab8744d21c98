// The conditions of `wait` tasks in a test: nothing outside is read, and each of them holds at its first check.

import type { ConditionProbes } from "../../engine/ports.ts"

export const HOLDING_CONDITIONS: ConditionProbes = {
  paths: (path) => Promise.resolve([path]),
  respond: () => Promise.resolve({ response: { status: 200, headers: {}, body: null }, expected: true }),
  firstRow: () => Promise.resolve({ condition: true }),
  stop: () => Promise.resolve(),
}

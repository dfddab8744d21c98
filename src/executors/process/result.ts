// Builds the common fields of an attempt's result from its process.

import type { AttemptResult } from "../../core/model/change.ts"
import { signalName } from "../messages.ts"
import type { Exited } from "./protocol.ts"

export interface StartedProcess {
  at: number
  externalId: string
}

export type ResultBase = Pick<AttemptResult, "startedAt" | "finishedAt" | "externalId" | "exitCode" | "usage">

export const resultBase = (started: StartedProcess | null, finishedAt: number, exited?: Exited): ResultBase => {
  if (started === null) return { startedAt: null, finishedAt, ...(exited !== undefined && exitOf(exited)) }
  const base = { startedAt: started.at, finishedAt, externalId: started.externalId }
  return exited === undefined ? base : { ...base, ...exitOf(exited) }
}

const exitOf = (exited: Exited): Pick<AttemptResult, "exitCode" | "usage"> => ({
  ...(exited.code === null ? {} : { exitCode: exited.code }),
  usage: {
    // The helper in JavaScript does not measure usage.
    ...(exited.maxRssBytes === 0
      ? {}
      : {
          maxRssBytes: exited.maxRssBytes,
          cpuUserMs: Math.round(exited.userMicros / 1000),
          cpuSystemMs: Math.round(exited.systemMicros / 1000),
        }),
    ...(exited.signal === 0 ? {} : { signal: signalName(exited.signal) }),
  },
})

// Makes an attempt's result from what its process did.

import type { AttemptResult } from "../../core/model/change.ts"
import { signalName } from "../messages.ts"
import type { Exited } from "./protocol.ts"

/** A process that has begun. */
export interface Begun {
  at: number
  externalId: string
}

export type ResultBase = Pick<AttemptResult, "startedAt" | "finishedAt" | "externalId" | "exitCode" | "usage">

export const resultBase = (begun: Begun | null, finishedAt: number, exited?: Exited): ResultBase => ({
  startedAt: begun?.at ?? null,
  finishedAt,
  ...(begun === null ? {} : { externalId: begun.externalId }),
  ...(exited === undefined ? {} : exitOf(exited)),
})

const exitOf = (exited: Exited): Pick<AttemptResult, "exitCode" | "usage"> => ({
  ...(exited.code === null ? {} : { exitCode: exited.code }),
  usage: {
    // The helper in JavaScript does not know these.
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

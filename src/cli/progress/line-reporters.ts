// Reporters that print one line per event: plain text without a terminal, JSON for programs.

import { eventLine } from "./event-text.ts"
import type { Reporter } from "./reporter.ts"
import type { Context } from "../target/context.ts"
import { print, printError } from "../terminal/output.ts"
import { eventShape } from "../../protocol/api/shapes.ts"

export const plainReporter = (context: Context): Reporter => ({
  start: () => {},
  event(event) {
    const line = eventLine(event)
    if (line !== null) print(context, line)
  },
  note: (text) => printError(context, `ork: ${text}`),
  warn: (text) => printError(context, `ork: warning: ${text}`),
  stop: () => {},
})

export const jsonReporter = (context: Context): Reporter => ({
  ...plainReporter(context),
  event: (event) => print(context, JSON.stringify(eventShape(event))),
})

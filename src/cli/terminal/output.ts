// Writes lines, JSON and coloured spans to the standard streams.

import type { Context } from "../target/context.ts"
import { paint, type Span, wantsColour } from "./style.ts"

export const print = (context: Context, line: string): void => void context.stdout.write(`${line}\n`)

export const printError = (context: Context, line: string): void => void context.stderr.write(`${line}\n`)

export const printJson = (context: Context, value: unknown): void => print(context, JSON.stringify(value, null, 2))

/** Prints the value as JSON with `--json`, and the text otherwise. Returns exit code 0. */
export const printResult = (context: Context, options: { json?: boolean }, value: unknown, text: string): number => {
  if (options.json === true) printJson(context, value)
  else print(context, text)
  return 0
}

export const printSpans = (context: Context, lines: readonly (readonly Span[])[]): void => {
  const colour = wantsColour(context.stdout, context.env)
  for (const line of lines) print(context, paint(line, colour).trimEnd())
}

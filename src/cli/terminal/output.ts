// Writing to standard output for people and programs.

import type { Context } from "../target/backends.ts"
import { paint, type Span, wantsColour } from "./style.ts"

export const print = (context: Context, line: string): void => void context.stdout.write(`${line}\n`)

export const printError = (context: Context, line: string): void => void context.stderr.write(`${line}\n`)

export const printJson = (context: Context, value: unknown): void => print(context, JSON.stringify(value, null, 2))

export const printSpans = (context: Context, lines: readonly (readonly Span[])[]): void => {
  const colour = wantsColour(context.stdout, context.env)
  for (const line of lines) print(context, paint(line, colour).trimEnd())
}

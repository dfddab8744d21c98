// Writes lines, JSON and coloured spans to the standard streams.

import { paint, type Span, wantsColour } from "./style.ts"

export interface Terminal {
  env: { [name: string]: string | undefined }
  stdout: NodeJS.WriteStream
  stderr: NodeJS.WriteStream
}

export const print = (terminal: Terminal, line: string): void => void terminal.stdout.write(`${line}\n`)

export const printError = (terminal: Terminal, line: string): void => void terminal.stderr.write(`${line}\n`)

export const printJson = (terminal: Terminal, value: unknown): void => print(terminal, JSON.stringify(value, null, 2))

/** Prints the value as JSON with `--json`, and the text otherwise. Returns exit code 0. */
export const printResult = (terminal: Terminal, options: { json?: boolean }, value: unknown, text: string): number => {
  if (options.json === true) printJson(terminal, value)
  else print(terminal, text)
  return 0
}

export const printSpans = (terminal: Terminal, lines: readonly (readonly Span[])[]): void => {
  const colour = wantsColour(terminal.stdout, terminal.env)
  for (const line of lines) print(terminal, paint(line, colour).trimEnd())
}

// Reports of cases: for people, as JSON and as JUnit XML.

import type { Difference } from "./check-case.ts"

export interface CaseReport {
  file: string
  name: string
  line: number
  ms: number
  differences: (Difference & { line: number })[]
}

/** Returns the lines of one case: its name, and each difference with its place. */
export const caseLines = ({ file, name, differences }: CaseReport): string[] => [
  `${differences.length === 0 ? "✓" : "✗"} ${file}: ${name}`,
  ...differences.flatMap(({ path, line, lines: [first, ...rest] }) => [
    `    ${file}:${line}: ${path.join(".")}: ${first}`,
    ...rest.map((text) => `        ${text}`),
  ]),
]

export const reportJson = (reports: readonly CaseReport[]): object[] =>
  reports.map(({ file, name, line, ms, differences }) => ({
    file,
    line,
    case: name,
    passed: differences.length === 0,
    ms,
    differences: differences.map((each) => ({
      line: each.line,
      path: each.path.join("."),
      message: each.lines.join("\n"),
    })),
  }))

export const junitXml = (reports: readonly CaseReport[]): string => {
  const failed = reports.filter(({ differences }) => differences.length > 0).length
  const cases = reports.map((report) => {
    const { file, name, ms } = report
    const open = `  <testcase classname=${quoted(file)} name=${quoted(name)} time="${(ms / 1000).toFixed(3)}"`
    if (report.differences.length === 0) return `${open}/>`
    const [, ...lines] = caseLines(report)
    return `${open}>\n    <failure message=${quoted(lines[0]!.trim())}>${escaped(lines.join("\n"))}</failure>\n  </testcase>`
  })
  const head = `<testsuite name="ork test" tests="${reports.length}" failures="${failed}">`
  return `<?xml version="1.0" encoding="UTF-8"?>\n${head}\n${cases.map((each) => `${each}\n`).join("")}</testsuite>\n`
}

const quoted = (text: string): string => `"${escaped(text)}"`

const escaped = (text: string): string =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll(/[\0-\u0008\u000B\u000C\u000E-\u001F]/g, "\uFFFD")

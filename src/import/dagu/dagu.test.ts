import { describe, expect, it } from "vitest"
import { importDagu } from "./dagu.ts"
import type { WorkflowDefinition } from "../../core/model/definition.ts"
import { parseDefinition } from "../../definition/parse.ts"

const convert = (text: string) => importDagu(text, { name: "etl", timezone: "UTC" })

const only = (text: string): WorkflowDefinition => {
  const { workflows, problems } = convert(text)
  expect(problems).toEqual([])
  const { definition } = workflows[0]!
  const parsed = parseDefinition(JSON.stringify(definition), { file: "x.json" })
  expect(parsed.ok ? [] : parsed.problems).toEqual([])
  return definition
}

describe("a Dagu file", () => {
  it("keeps its graph, schedule, retries, timeouts and allowed failures", () => {
    const definition = only(`
description: Nightly load
schedule: "0 2 * * *"
tags: [sales, nightly]
maxActiveRuns: 1
steps:
  - name: extract
    command: ./extract.sh
    retryPolicy: { limit: 3, intervalSec: 10, exitCode: [75] }
  - name: load
    command: psql -f load.sql
    depends: extract
    timeoutSec: 60
    continueOn: { failure: true }
  - name: report
    depends: [load, extract]
    script: |
      print("done")
    command: python3
handlerOn:
  failure:
    command: ./page.sh
`)
    expect(definition).toMatchObject({
      name: "etl",
      schedule: { cron: "0 2 * * *", timezone: "UTC" },
      tags: ["sales", "nightly"],
      max_active_runs: 1,
      on_failure: [{ command: "./page.sh" }],
      tasks: {
        extract: { command: "./extract.sh", retry: { max_attempts: 4, backoff: "fixed", base_delay: 10 }, retry_on: [75] },
        load: { depends_on: ["extract"], timeout: 60, continue_on_error: true },
        report: { depends_on: ["load", "extract"], shell: "python", command: 'print("done")\n' },
      },
    })
  })

  it("passes params, and the outputs of earlier steps, as the variables that its commands read", () => {
    const definition = only(`
params: DAY=2026-01-31 REGION=eu
type: chain
steps:
  - name: count
    command: wc -l $DAY.csv
    output: ROWS
  - echo "$ROWS rows in $REGION"
`)
    expect(definition).toMatchObject({
      params: { DAY: "2026-01-31", REGION: "eu" },
      env: { DAY: "${{ params.DAY }}", REGION: "${{ params.REGION }}" },
      tasks: {
        count: { output: "text" },
        step2: { depends_on: ["count"], env: { ROWS: '${{ tasks["count"].output }}' } },
      },
    })
  })

  it("may contain several workflows, which call each other", () => {
    const { workflows } = convert(`
name: parent
steps:
  - name: child
    call: worker
    params: { DAY: "1" }
---
name: worker
params: { DAY: "0" }
steps: [ { command: "echo $DAY" } ]
`)
    expect(workflows.map(({ definition }) => definition.name)).toEqual(["parent", "worker"])
    expect(workflows[0]!.definition.tasks["child"]).toEqual({ executor: "workflow", workflow: "worker", input: { DAY: "1" } })
  })

  it("waits for a command that it repeats until its exit code is 0", () => {
    const { workflows, problems } = convert(`
steps:
  - name: ready
    command: test -f done
    repeat_policy: { repeat: until, exit_code: [0], interval_sec: 10, limit: 6 }
`)
    expect(problems).toEqual([])
    expect(workflows[0]!.definition.tasks["ready"]).toEqual({
      executor: "wait",
      command: "test -f done",
      every: 10,
      timeout: 60,
    })
  })

  it("sends its mails about runs and failed steps", () => {
    const { workflows, problems } = convert(`
mail_on: { failure: true, success: false, wait: true }
error_mail: { from: dagu@x.test, to: "ops@x.test, dev@x.test", prefix: "[Error]" }
smtp: { host: mail.x.test }
steps:
  - name: a
    command: echo a
    mail_on_error: true
  - name: b
    command: echo b
    mail_on_error: false
`)
    expect(workflows[0]!.definition).toMatchObject({
      notify: [
        { on: ["failure"], email: ["ops@x.test", "dev@x.test"], subject: "[Error] ${{ run.workflow }} ${{ run.status }}" },
      ],
      tasks: {
        a: {
          notify: {
            on: ["failure"],
            email: ["ops@x.test", "dev@x.test"],
            subject: "[Error] ${{ run.workflow }}: ${{ task.name }} ${{ task.status }}",
          },
        },
      },
    })
    expect(workflows[0]!.definition.tasks["b"]).toEqual({ command: "echo b" })
    expect(parseDefinition(JSON.stringify(workflows[0]!.definition), { file: "x.json" }).ok).toBe(true)
    expect(problems.map(({ line, message }) => `${line}: ${message}`)).toEqual([
      "3: errorMail.from is left out: set smtp_from in ork.yaml of the server",
      "4: smtp is left out: set smtp and smtp_from in ork.yaml of the server",
      "2: mailOn.wait has no counterpart and is left out",
    ])
  })

  it("reports what has no counterpart, with its line, and a broken file", () => {
    const { workflows, problems } = convert(`
mailOn: { failure: true }
steps:
  - name: a
    command: echo a
    repeatPolicy: { repeat: true }
    mailOnError: true
  - name: b
    executor: ssh
    command: ls
`)
    expect(Object.keys(workflows[0]!.definition.tasks)).toEqual(["a"])
    expect(problems.map(({ line, message }) => `${line}: ${message}`)).toEqual([
      "2: mailOn.failure is left out: errorMail names no address",
      "6: repeatPolicy of the step a has no counterpart and is left out",
      "7: mailOnError is left out: errorMail names no address",
      "9: the step b uses the executor ssh, which is not converted",
    ])
    expect(convert("steps: [").problems).toMatchObject([{ line: 1 }])
  })
})

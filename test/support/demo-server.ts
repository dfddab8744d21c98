// A server with data for every page of the web UI: successful, failed, running and waiting workflows, jobs, queues, keys.

import { type Calls, probe } from "./server.ts"

const SALES = {
  name: "nightly-sales",
  description: "Loads the sales of a day and writes the report",
  tags: ["sales", "nightly"],
  params: {
    date: { type: "date", default: "2026-11-14", description: "Day to load" },
    region: { type: "string", enum: ["eu", "us", "apac"], default: "eu", description: "Which shops" },
    limit: { type: "integer", default: 100, minimum: 1, maximum: 1000, description: "Rows at most" },
    dry_run: { type: "boolean", default: false, description: "Write nothing" },
    options: { type: "object", default: { retries: 2 }, description: "Further options" },
  },
  schedule: { cron: "0 2 * * *", timezone: "Europe/Berlin" },
  tasks: {
    discover: { command: "sleep 0.1; echo found 4 files" },
    load: { depends_on: ["discover"], parallel: 4, command: "sleep 0.1; echo loading part $ORK_PARALLEL_INDEX" },
    check: { depends_on: ["load"], command: "echo all rows fit" },
    report: { depends_on: ["check"], command: "echo done" },
  },
}

const NOTIFY = { ...SALES.tasks, notify: { depends_on: ["report"], command: "echo told everybody" } }

/** A workflow with every feature: fan-outs, retries, groups, skips, a failure, and tasks after it. */
const CATALOG = {
  name: "publish-catalog",
  description: "Builds the catalog of every region and publishes it",
  tags: ["sales"],
  params: { broken: { type: "boolean", default: true } },
  concurrency: 8,
  on_failure: [{ command: "echo paging whoever is on call" }],
  tasks: {
    fetch: { command: "sleep 0.4; echo 24 products" },
    settings: { command: "sleep 0.15; echo read" },
    images: {
      depends_on: ["fetch"],
      parallel: 24,
      concurrency: 6,
      retry: { max_attempts: 2, base_delay: 0.3 },
      command:
        "sleep 0.$((ORK_PARALLEL_INDEX % 4 + 1)); test ${{ params.broken }} = false || test $ORK_PARALLEL_INDEX -ne 7 || { echo 'no such image' >&2; exit 1; }",
    },
    region: {
      depends_on: ["fetch", "settings"],
      foreach: ["eu", "us", "apac"],
      tasks: {
        prices: { command: "sleep 0.3; echo priced" },
        translate: { command: "sleep 0.5; echo translated" },
        render: { depends_on: ["prices", "translate"], command: "sleep 0.2; echo rendered" },
      },
    },
    check: {
      depends_on: ["region"],
      retry: { max_attempts: 3, base_delay: 0.4 },
      command: "sleep 0.2; test ${{ params.broken }} = false || test $ORK_ATTEMPT -ge 2",
    },
    publish: { depends_on: ["images", "check"], command: "echo published" },
    announce: { depends_on: ["publish"], command: "echo told everybody" },
    tidy: { depends_on: ["images", "check"], run_when: "all_done", command: "sleep 0.2; echo removed 3 files" },
  },
}

/** The log of a training, with terminal colours. */
const TRAINING = [
  "printf '\\033[1mEpoch 1/3\\033[0m  loss \\033[36m0.52\\033[0m\\n'",
  'for i in $(seq 1 400); do echo "  step $i of 400, 32 rows"; done',
  "printf '\\033[33mWARN\\033[0m  the learning rate is high\\n\\033[32mINFO\\033[0m  saved to \\033[4mmodels/r1\\033[0m\\n'",
  "printf 'Traceback (most recent call last):\\n  File \"train.py\", line 42, in <module>\\n' >&2",
  "printf '\\033[1;31mMemoryError\\033[0m: 9.1 GiB asked for, 8 GiB there\\n' >&2",
  "echo cleaning up",
  "exit 1",
].join("; ")

const DEFINITIONS = [
  CATALOG,
  SALES,
  { ...SALES, tasks: NOTIFY },
  {
    name: "sync-customers",
    description: "Copies customers from the shop to the CRM",
    tags: ["crm"],
    schedule: "*/15 * * * *",
    params: { fail: { type: "boolean", default: false } },
    tasks: {
      fetch: { command: "sleep 0.1; echo 120 customers" },
      push: { depends_on: ["fetch"], command: "test ${{ params.fail }} = false || { echo 'the CRM said 503' >&2; exit 1; }" },
    },
  },
  {
    name: "train-model",
    description: "Trains and ships the ranking model",
    tags: ["ml"],
    schedule: { cron: "30 4 * * 1" },
    tasks: {
      prepare: { command: "sleep 0.1" },
      train: { depends_on: ["prepare"], retry: { max_attempts: 2, base_delay: 0.1 }, command: TRAINING },
      ship: { depends_on: ["train"], command: "true" },
    },
  },
  { name: "clean-up", tags: ["ops"], schedule: "0 * * * *", tasks: { vacuum: { command: "true" } } },
  {
    name: "export-archive",
    tags: ["ops", "sales"],
    tasks: { export: { command: "sleep 600" }, zip: { depends_on: ["export"], command: "true" } },
  },
  {
    name: "release",
    tasks: {
      build: { command: "echo built" },
      ask: { depends_on: ["build"], executor: "approval", message: "Ship release 4.2 to everybody?" },
      ship: { depends_on: ["ask"], command: "true" },
    },
  },
]

/** Ids of the created objects. */
export interface Demo {
  failed: string
  running: string
  succeeded: string
  rich: string
  waiting: string
  job: string
}

/** Resolves with a failed run and a running one. */
export const fillDemo = async (server: Calls, rounds = 12): Promise<Demo> => {
  const { call, trigger } = server
  for (const definition of DEFINITIONS) await server.deploy(definition)
  await call("POST", "/workflows/clean-up/pause")
  const failed = await trigger("train-model")
  const ids = [failed]
  for (let i = 0; i < rounds; i++) {
    ids.push(await trigger("nightly-sales", { params: { limit: 100 + i } }))
    ids.push(await trigger("sync-customers", { params: { fail: i % 4 === 3 } }))
  }
  for (let i = 0; i < rounds / 3; i++) {
    ids.push(await trigger("train-model"))
    ids.push(await trigger("publish-catalog", { params: { broken: i % 2 === 0 } }))
  }
  const rich = await trigger("publish-catalog")
  ids.push(rich)
  const waiting = await trigger("release")
  const running = await trigger("export-archive")
  const cancelled = await trigger("export-archive")
  await call("POST", `/runs/${cancelled}/cancel`)
  const job = await fillJobs(server)
  await call("POST", "/keys", { name: "ci", scopes: ["trigger"] })
  await call("POST", "/keys", { name: "dashboard", scopes: ["read"] })
  for (const id of [...ids, cancelled]) await server.reaches(id, "success", "failed", "cancelled")
  return { failed, running, succeeded: ids[1]!, rich, waiting, job }
}

const fillJobs = async ({ call }: Calls): Promise<string> => {
  await call("PUT", "/queues/mail", { concurrency: 2, rate_limit: { limit: 10, period_seconds: 60 } })
  const submit = async (job: object): Promise<string> => (await call("POST", "/jobs", job)).body["id"] as string
  const resize = await submit({
    name: "Resize images",
    queue: "media",
    priority: 8,
    payload: { album: 12 },
    task: { command: `echo resizing 12 images; echo '{"resized": 12}'` },
  })
  const publish = await submit({
    name: "Publish the album",
    queue: "media",
    payload: { album: 12 },
    dependencies: [resize],
    task: { command: `echo publishing; echo '{"url": "/albums/12"}'` },
  })
  await submit({ name: "Broken import", queue: "imports", retry_policy: { max_attempts: 1 }, task: { command: "exit 2" } })
  for (const who of ["ada", "grace", "edsger", "barbara"]) {
    await submit({ name: `Welcome mail to ${who}`, queue: "mail", payload: { to: `${who}@example.org` } })
  }
  await probe(async () => ((await call("GET", `/jobs/${publish}`)).body["status"] === "COMPLETED" ? true : null))
  await call("PUT", "/queues/imports", { paused: true })
  return publish
}

export interface DemoPage {
  name: string
  path: string
  /** A button to press on the page. */
  press?: string
}

/** Every page with a name for its screenshot. */
export const demoPages = ({ failed, rich, waiting, job }: Demo): DemoPage[] => [
  { name: "workflows", path: "/workflows" },
  { name: "workflow", path: "/workflows/nightly-sales" },
  { name: "workflow-runs", path: "/workflows/nightly-sales?tab=runs" },
  { name: "versions", path: "/workflows/nightly-sales?tab=versions" },
  { name: "workflow-schedules", path: "/workflows/nightly-sales?tab=schedules" },
  { name: "params", path: "/workflows/nightly-sales?tab=params" },
  { name: "source", path: "/workflows/nightly-sales?tab=source" },
  { name: "trigger", path: "/workflows/nightly-sales/run" },
  { name: "runs", path: "/runs" },
  { name: "run", path: `/runs/${rich}` },
  { name: "run-task", path: `/runs/${rich}?task=check` },
  { name: "timeline", path: `/runs/${rich}?tab=timeline` },
  { name: "grid", path: `/runs/${rich}?tab=grid` },
  { name: "logs", path: `/runs/${failed}?tab=logs&task=train`, press: "First error" },
  { name: "task", path: `/runs/${failed}?tab=grid&task=train` },
  { name: "instances", path: `/runs/${rich}?tab=timeline&task=images` },
  { name: "approval", path: `/runs/${waiting}?task=ask` },
  { name: "plan", path: `/runs/${rich}`, press: "Retry" },
  { name: "compare", path: `/runs/${rich}?tab=compare` },
  { name: "jobs", path: "/jobs" },
  { name: "job", path: `/jobs/${job}` },
  { name: "new-job", path: "/jobs/new" },
  { name: "schedules", path: "/schedules" },
  { name: "week", path: "/schedules?view=week" },
  { name: "workers", path: "/workers" },
  { name: "system", path: "/system" },
  { name: "audit", path: "/system?tab=audit" },
  { name: "keys", path: "/system?tab=keys" },
  { name: "not-found", path: "/nowhere" },
  { name: "sign-in", path: "/welcome?problem=link" },
]

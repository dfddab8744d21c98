// The table of all routes, in the order of the OpenAPI document.

import type { ApiParts } from "../http/ports.ts"
import type { Route, UntaggedRoute } from "../http/route.ts"
import { externalSignalRoutes } from "./external-signals.ts"
import { artifactRoutes } from "./artifacts.ts"
import { auditRoutes } from "./audit.ts"
import { changeRoutes } from "./changes.ts"
import { bundleRoutes } from "./bundles.ts"
import { eventRoutes } from "./events.ts"
import { exportRoutes } from "./exports.ts"
import { functionRoutes } from "./functions.ts"
import { healthRoutes } from "./health.ts"
import { hookRoutes } from "./hooks.ts"
import { jobRoutes } from "./jobs.ts"
import { keyRoutes } from "./keys.ts"
import { logRoutes } from "./logs.ts"
import { runViewRoutes } from "./run-views.ts"
import { pushRoutes } from "./push.ts"
import { queueRoutes } from "./queues.ts"
import { runRoutes } from "./runs.ts"
import { scheduleRoutes } from "./schedules.ts"
import { signInRoutes } from "./sign-in.ts"
import { statsRoutes } from "./stats.ts"
import { taskRoutes } from "./tasks.ts"
import { workerRoutes } from "./workers.ts"
import { workflowRoutes } from "./workflows.ts"

/** Tags the routes that have no tag of their own. */
const tagged = (tag: string, routes: readonly UntaggedRoute[]): Route[] => routes.map((route) => ({ tag, ...route }))

export const ROUTES: readonly Route[] = [
  ...tagged("workflows", workflowRoutes),
  ...tagged("workflows", bundleRoutes),
  ...tagged("runs", runRoutes),
  ...tagged("runs", exportRoutes),
  ...tagged("tasks", taskRoutes),
  ...tagged("runs", runViewRoutes),
  ...tagged("tasks", externalSignalRoutes),
  ...tagged("runs", functionRoutes),
  ...tagged("logs", logRoutes),
  ...tagged("artifacts", artifactRoutes),
  ...tagged("events", eventRoutes),
  ...tagged("jobs", jobRoutes),
  ...tagged("runs", changeRoutes),
  ...tagged("queues", queueRoutes),
  ...tagged("schedules", scheduleRoutes),
  ...tagged("workers", workerRoutes),
  ...tagged("worker protocol", pushRoutes),
  ...tagged("hooks", hookRoutes),
  ...tagged("keys", keyRoutes),
  ...tagged("keys", auditRoutes),
  ...tagged("server", statsRoutes),
  ...tagged("server", healthRoutes),
  ...tagged("signing in", signInRoutes),
]

/** Leaves out the routes that require a part that the server lacks. */
export const routesFor = (parts: ApiParts): Route[] =>
  ROUTES.filter((route) => route.requires === undefined || parts[route.requires] !== undefined)

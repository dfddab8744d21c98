// The table of all routes, in the order of the OpenAPI document.

import type { ApiParts } from "../http/ports.ts"
import type { Route, UntaggedRoute } from "../http/route.ts"
import { externalSignalRoutes } from "./runs/external-signals.ts"
import { artifactRoutes } from "./runs/artifacts.ts"
import { auditRoutes } from "./admin/audit.ts"
import { changeRoutes } from "./runs/changes.ts"
import { bundleRoutes } from "./workflows/bundles.ts"
import { eventRoutes } from "./runs/events.ts"
import { exportRoutes } from "./runs/exports.ts"
import { functionRoutes } from "./runs/functions.ts"
import { healthRoutes } from "./admin/health.ts"
import { hookRoutes } from "./workflows/hooks.ts"
import { jobRoutes } from "./jobs/jobs.ts"
import { keyRoutes } from "./admin/keys.ts"
import { logRoutes } from "./runs/logs.ts"
import { runViewRoutes } from "./runs/run-views.ts"
import { pushRoutes } from "./workers/push.ts"
import { queueRoutes } from "./jobs/queues.ts"
import { runRoutes } from "./runs/runs.ts"
import { scheduleRoutes } from "./workflows/schedules.ts"
import { signInRoutes } from "./admin/sign-in.ts"
import { statsRoutes } from "./admin/stats.ts"
import { taskRoutes } from "./runs/tasks.ts"
import { workerRoutes } from "./workers/workers.ts"
import { workflowRoutes } from "./workflows/workflows.ts"

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

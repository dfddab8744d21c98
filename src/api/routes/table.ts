// The table of all routes, in the order of the OpenAPI document.

import type { ApiParts } from "../http/ports.ts"
import type { Route } from "../http/route.ts"
import { externalSignalRoutes } from "./external-signals.ts"
import { auditRoutes } from "./audit.ts"
import { bundleRoutes } from "./bundles.ts"
import { eventRoutes } from "./events.ts"
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

export const ROUTES: readonly Route[] = [
  ...workflowRoutes,
  ...bundleRoutes,
  ...runRoutes,
  ...taskRoutes,
  ...runViewRoutes,
  ...externalSignalRoutes,
  ...logRoutes,
  ...eventRoutes,
  ...jobRoutes,
  ...queueRoutes,
  ...scheduleRoutes,
  ...workerRoutes,
  ...pushRoutes,
  ...hookRoutes,
  ...keyRoutes,
  ...auditRoutes,
  ...statsRoutes,
  ...healthRoutes,
  ...signInRoutes,
]

/** Leaves out the routes that require a part that the server lacks. */
export const routesFor = (parts: ApiParts): Route[] =>
  ROUTES.filter((route) => route.requires === undefined || parts[route.requires] !== undefined)

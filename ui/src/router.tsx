// All routes with their query parameters. The code of a page is loaded when it is first opened.

import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Navigate, Outlet } from "@tanstack/react-router"
import { compact, oneOf, type Search, text } from "./address.ts"
import { code } from "./code.ts"
import { NotFound, PageProblem } from "./components/error-boundary.tsx"
import { Loading } from "./components/states.tsx"
import { Shell } from "./layout/shell.tsx"
import {
  jobsSearch,
  runSearch,
  runsSearch,
  schedulesSearch,
  systemSearch,
  triggerSearch,
  workflowSearch,
  workflowsSearch,
} from "./pages/search.ts"

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound })

const welcome = createRoute({
  getParentRoute: () => root,
  path: "/welcome",
  validateSearch: (search: Search) =>
    compact({ next: text(search["next"]), problem: oneOf(search["problem"], ["link", "scope", "oidc", "role"] as const) }),
  component: lazyRouteComponent(
    code(() => import("./pages/welcome-page.tsx")),
    "WelcomePage",
  ),
})

const shell = createRoute({ getParentRoute: () => root, id: "shell", component: Shell })

const home = createRoute({
  getParentRoute: () => shell,
  path: "/",
  component: () => <Navigate to="/workflows" replace />,
})

const workflows = createRoute({
  getParentRoute: () => shell,
  path: "/workflows",
  validateSearch: workflowsSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/workflows/workflows-page.tsx")),
    "WorkflowsPage",
  ),
})

const workflow = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$name",
  validateSearch: workflowSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/workflow/workflow-page.tsx")),
    "WorkflowPage",
  ),
})

const trigger = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$name/run",
  validateSearch: triggerSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/trigger/trigger-page.tsx")),
    "TriggerPage",
  ),
})

const runs = createRoute({
  getParentRoute: () => shell,
  path: "/runs",
  validateSearch: runsSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/runs/runs-page.tsx")),
    "RunsPage",
  ),
})

const run = createRoute({
  getParentRoute: () => shell,
  path: "/runs/$runId",
  validateSearch: runSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/run/run-page.tsx")),
    "RunPage",
  ),
})

const jobs = createRoute({
  getParentRoute: () => shell,
  path: "/jobs",
  validateSearch: jobsSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/jobs/jobs-page.tsx")),
    "JobsPage",
  ),
})

const newJob = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/new",
  component: lazyRouteComponent(
    code(() => import("./pages/jobs/new-job-page.tsx")),
    "NewJobPage",
  ),
})

const job = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/$jobId",
  component: lazyRouteComponent(
    code(() => import("./pages/jobs/job-page.tsx")),
    "JobPage",
  ),
})

const schedules = createRoute({
  getParentRoute: () => shell,
  path: "/schedules",
  validateSearch: schedulesSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/schedules/schedules-page.tsx")),
    "SchedulesPage",
  ),
})

const workers = createRoute({
  getParentRoute: () => shell,
  path: "/workers",
  component: lazyRouteComponent(
    code(() => import("./pages/workers-page.tsx")),
    "WorkersPage",
  ),
})

const system = createRoute({
  getParentRoute: () => shell,
  path: "/system",
  validateSearch: systemSearch,
  component: lazyRouteComponent(
    code(() => import("./pages/system/system-page.tsx")),
    "SystemPage",
  ),
})

const tree = root.addChildren([
  welcome,
  shell.addChildren([home, workflows, workflow, trigger, runs, run, jobs, newJob, job, schedules, workers, system]),
])

const Pending = () => (
  <div className="page">
    <Loading />
  </div>
)

export const router = createRouter({
  routeTree: tree,
  basepath: "/ui",
  // Plain text on both sides: `?status=failed`, never JSON.
  parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
  stringifySearch: (search) => {
    const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== null && value !== "")
    const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
    return query === "" ? "" : `?${query}`
  },
  defaultPreload: "intent",
  defaultPendingMs: 300,
  scrollRestoration: true,
  defaultErrorComponent: PageProblem,
  defaultNotFoundComponent: NotFound,
  defaultPendingComponent: Pending,
})

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router
  }
}

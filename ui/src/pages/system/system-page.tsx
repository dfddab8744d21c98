// The system page: activity, sizes, audit log and keys.

import { getRouteApi } from "@tanstack/react-router"
import { lazy, type ReactElement, Suspense } from "react"
import { code } from "../../code.ts"
import { PageHead } from "../../components/page-head.tsx"
import { Loading } from "../../components/states.tsx"
import { TabNav } from "../../components/tab-nav.tsx"
import { useMay } from "../../session/session.ts"
import { AuditLog } from "./audit-log.tsx"
import { Keys } from "./keys.tsx"
import { Tiles } from "./tiles.tsx"

const Charts = lazy(async () => ({ default: (await code(() => import("./charts.tsx"))()).Charts }))

const route = getRouteApi("/shell/system")

export const SystemPage = (): ReactElement => {
  const { tab = "charts" } = route.useSearch()
  const admin = useMay("admin")
  return (
    <div className="page">
      <PageHead title="System" />
      <TabNav
        label="Views of the system"
        current={tab}
        tabs={[
          { id: "charts", text: "Figures" },
          ...(admin
            ? ([
                { id: "audit", text: "Audit log" },
                { id: "keys", text: "Keys" },
              ] as const)
            : []),
        ]}
      />
      {tab === "audit" && admin ? <AuditLog /> : null}
      {tab === "keys" && admin ? <Keys /> : null}
      {tab === "charts" || !admin ? (
        <>
          <Tiles />
          <Suspense fallback={<Loading what="Loading the charts" />}>
            <Charts />
          </Suspense>
        </>
      ) : null}
    </div>
  )
}

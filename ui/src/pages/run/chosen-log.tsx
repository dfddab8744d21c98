// The selected log, or the reason why there is none yet. The viewer is loaded with the first log.

import { lazy, type ReactElement, Suspense } from "react"
import { code } from "../../code.ts"
import { Empty, Loading } from "../../components/states.tsx"
import { taskLogAddress } from "../../logs/log-port.ts"
import { Explained } from "./explained.tsx"
import { instanceName } from "../../run/state.ts"
import type { LogChoice } from "./log-choice.ts"

const LogView = lazy(async () => ({ default: (await code(() => import("../../logs/log-view.tsx"))()).LogView }))

export const ChosenLog = ({
  runId,
  choice,
  small = false,
}: {
  runId: string
  choice: LogChoice
  small?: boolean
}): ReactElement => {
  const { node, instance, attempt, live } = choice
  if (instance === null || attempt === 0) {
    return (
      <div className="card">
        <Empty title={`${node.name} has not begun`} icon="clock">
          <Explained runId={runId} task={node.name} path={instance?.path ?? ""} />
        </Empty>
      </div>
    )
  }
  const { path } = instance
  const place = path === "" ? node.name : `${node.name}[${path}]`
  return (
    <Suspense fallback={<Loading what="Loading the log" />}>
      <LogView
        key={`${place} ${attempt}`}
        address={taskLogAddress(runId, node.name, path, attempt)}
        live={live}
        label={`Log of ${instanceName(node.name, instance)}`}
        fileName={`${place.replace(/[^\w.-]+/g, "-")}-${attempt}.log`}
        small={small}
      />
    </Suspense>
  )
}

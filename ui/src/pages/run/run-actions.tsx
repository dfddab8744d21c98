// What can be done with a run.

import { Link } from "@tanstack/react-router"
import type { ReactElement } from "react"
import type { Run } from "../../api/types.ts"
import { buttonClass } from "../../components/button.tsx"
import { Icon } from "../../components/icon.tsx"
import { useMay } from "../../session/session.ts"

export const RunActions = ({ run }: { run: Run }): ReactElement | null =>
  useMay("trigger") ? (
    <Link to="/workflows/$name/run" params={{ name: run.workflow }} search={{ from: run.id }} className={buttonClass()}>
      <Icon name="retry" />
      Run again
    </Link>
  ) : null

// The instances of a fan-out by status.

import { useVirtualizer } from "@tanstack/react-virtual"
import { type ReactElement, useRef, useState } from "react"
import type { TaskStatus } from "../../api/types.ts"
import { StatusBadge } from "../../components/badge.tsx"
import { SelectFilter } from "../../components/field.tsx"
import { Loading } from "../../components/states.tsx"
import { lookOf } from "../../components/status.ts"
import { durationText, plural } from "../../format/time.ts"
import { type Instance, instanceName, type RunNode, totalOf } from "../../run/state.ts"
import { sortedPaths } from "./log-choice.ts"
import { useSelection } from "./selection.ts"

const ROW = 36

export const Instances = ({ node, complete }: { node: RunNode; complete: boolean }): ReactElement => {
  const [status, setStatus] = useState<TaskStatus | undefined>(undefined)
  const choices = (Object.keys(node.counts) as TaskStatus[])
    .filter((each) => node.counts[each] > 0)
    .map((each) => ({ value: each, text: `${lookOf(each).text} (${node.counts[each].toLocaleString("en")})` }))
  if (!complete) return <Loading what="Loading the instances" />
  const paths = sortedPaths(node).filter((path) => status === undefined || node.instances.get(path)!.status === status)
  return (
    <section className="stack" aria-label="Instances">
      <div className="instances-head">
        <h3>{plural(totalOf(node.counts), "instance")}</h3>
        <SelectFilter
          label="Status"
          value={status}
          all="All"
          choices={choices}
          onChange={(next) => setStatus(next as TaskStatus | undefined)}
        />
      </div>
      {paths.length === 0 ? (
        <p className="soft">{node.instances.size === 0 ? "None has been made yet." : "None has this status now."}</p>
      ) : (
        <List node={node} paths={paths} />
      )}
    </section>
  )
}

const List = ({ node, paths }: { node: RunNode; paths: readonly string[] }): ReactElement => {
  const { open } = useSelection()
  const element = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count: paths.length,
    getScrollElement: () => element.current,
    estimateSize: () => ROW,
    overscan: 10,
  })
  return (
    <div ref={element} className="instances" tabIndex={0} role="region" aria-label={`Instances of ${node.name}`}>
      <ul style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const path = paths[index]!
          const instance = node.instances.get(path)!
          return (
            <li key={path} className="instance" style={{ transform: `translateY(${start}px)` }}>
              <button type="button" className="link" onClick={() => open(node.name, path)}>
                {instanceName(node.short, instance)}
              </button>
              <StatusBadge status={instance.status} />
              <span className="soft small number">{timeOf(instance)}</span>
            </li>
          )
        })}
      </ul>
    </div>
  )
}

const timeOf = ({ startedAt, finishedAt, attempt }: Instance): string => {
  const took = startedAt === null || finishedAt === null ? "" : durationText(finishedAt - startedAt)
  return attempt > 1 ? `${took} · attempt ${attempt}` : took
}

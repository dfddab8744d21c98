// The boxes of a graph. Plain DOM, because hundreds may be visible. A box renders again only when its own state changes (feed.ts).

import { Handle, type Node, type NodeProps, Position } from "@xyflow/react"
import { createContext, type KeyboardEvent, memo, type ReactElement, use } from "react"
import { Icon } from "../components/icon.tsx"
import { lookOf } from "../components/status.ts"
import { Duration, Time } from "../components/time.tsx"
import { plural } from "../format/time.ts"
import { type Counts, endedOf, totalOf } from "../run/state.ts"
import { type BoxView, useBoxView } from "./feed.ts"
import { type Box, type GraphTask, MAX_INSTANCES } from "./model.ts"
import type { TaskStatus } from "../api/types.ts"

export interface BoxData extends Record<string, unknown> {
  box: Box
  /** null: the frame around hooks. */
  task: GraphTask | null
  /** Available action: open to its tasks or instances, close, or none. */
  fold: "open" | "close" | null
}

export type BoxNode = Node<BoxData>

export interface BoxActions {
  selected: string | null
  open: (task: string, path: string) => void
  fold: (task: GraphTask) => void
  /** Handles an arrow key; returns whether the focus moved. */
  go: (id: string, key: string) => boolean
}

export const ActionsContext = createContext<BoxActions | null>(null)

const useActions = (): BoxActions => use(ActionsContext)!

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

const wordsOf = (task: GraphTask, view: BoxView | null): string => {
  if (view === null) return `, ${aboutOf(task)}`
  const { counts } = view
  const progress = counts === null ? "" : `, ${endedOf(counts)} of ${plural(totalOf(counts), "instance")} ended`
  const failed = counts !== null && counts.failed > 0 ? `, ${counts.failed} failed` : ""
  return `, ${view.retryAt === null ? lookOf(view.status).text : "waits for its retry"}${progress}${failed}`
}

const StatusMark = ({ view }: { view: BoxView | null }): ReactElement | null => {
  if (view === null) return null
  const icon = view.retryAt === null ? lookOf(view.status).icon : "retry"
  return (
    <span className={`status-mark${view.status === "running" ? " status-mark-running" : ""}`}>
      <Icon name={icon} />
    </span>
  )
}

const toneOf = (view: BoxView | null): string => (view === null ? "" : ` tone-${lookOf(view.status).tone} box-${view.status}`)

/** The element that opens a task: focusable and with an accessible name. */
const Opener = ({
  box,
  task,
  view,
  children,
}: {
  box: Box
  task: GraphTask
  view: BoxView | null
  children: React.ReactNode
}) => {
  const { open, go, selected } = useActions()
  const keys = (event: KeyboardEvent): void => {
    if (go(box.id, event.key)) event.preventDefault()
  }
  const label = view?.label == null ? "" : ` ${view.label}`
  const name = box.kind === "instance" ? `${task.name} ${box.label}${label}` : task.name
  return (
    <button
      type="button"
      className="box-open nodrag nopan"
      data-box={box.id}
      aria-current={selected === box.id ? "true" : undefined}
      onClick={() => open(task.name, box.path)}
      onKeyDown={keys}
    >
      <span className="hidden">{`${name}${wordsOf(task, view)}`}</span>
      <span className="box-inside" aria-hidden="true">
        {children}
      </span>
    </button>
  )
}

const FoldButton = ({ task, fold }: { task: GraphTask; fold: "open" | "close" }): ReactElement => {
  const actions = useActions()
  const what = task.isGroup ? "group" : "instances of"
  return (
    <button
      type="button"
      className="box-fold nodrag nopan"
      aria-expanded={fold === "close"}
      aria-label={`${fold === "open" ? "Show" : "Hide"} ${what} ${task.name}`}
      title={fold === "open" ? "Show what is inside" : "Close"}
      onClick={() => actions.fold(task)}
    >
      <Icon name="chevron" />
    </button>
  )
}

const aboutOf = (task: GraphTask): string => {
  const kind = task.isGroup ? "group" : task.executor
  const rule = task.rule === "all_success" ? "" : ` · when ${task.rule.replaceAll("_", " ")}`
  const condition = task.condition === null ? "" : " · if"
  return `${kind}${task.fanOut === null ? "" : ` × ${task.fanOut}`}${rule}${condition}${task.mayFail ? " · may fail" : ""}`
}

/** Anchors of the edges. */
const Ends = (): ReactElement => (
  <>
    <Handle type="target" position={Position.Left} isConnectable={false} />
    <Handle type="source" position={Position.Right} isConnectable={false} />
  </>
)

export const TaskBox = memo(({ data }: NodeProps<BoxNode>): ReactElement => {
  const { box, fold } = data
  const task = data.task!
  const view = useBoxView(task.name, "")
  return (
    <div className={`box${toneOf(view)}`}>
      <Ends />
      <Opener box={box} task={task} view={view}>
        <span className="box-line">
          <StatusMark view={view} />
          <span className="box-name clip">{box.label}</span>
        </span>
        <span className="box-line box-about">
          <span className="clip">{aboutOf(task)}</span>
          {view?.retryAt == null ? null : (
            <span className="number">
              retry <Time at={iso(view.retryAt)} />
            </span>
          )}
          {view?.counts === null || view === null ? (
            view === null || view.startedAt === null ? null : (
              <Duration from={iso(view.startedAt)} to={iso(view.finishedAt)} />
            )
          ) : (
            <span className="number">
              {endedOf(view.counts)}/{totalOf(view.counts)}
            </span>
          )}
        </span>
        {view?.counts === null || view === null ? null : <CountBar counts={view.counts} />}
      </Opener>
      {fold === null || (view?.counts !== null && view !== null && totalOf(view.counts) > MAX_INSTANCES) ? null : (
        <FoldButton task={task} fold={fold} />
      )}
    </div>
  )
})

export const InstanceBox = memo(({ data: { box, task } }: NodeProps<BoxNode>): ReactElement => {
  const view = useBoxView(task!.name, box.path)
  const name = view?.label == null ? box.label : `${box.label} ${view.label}`
  return (
    <div className={`box box-small${toneOf(view)}`}>
      <Opener box={box} task={task!} view={view}>
        <span className="box-line">
          <StatusMark view={view} />
          <span className="box-name number clip" title={name}>
            {name}
          </span>
        </span>
      </Opener>
    </div>
  )
})

export const FrameBox = memo(({ data: { box, task, fold } }: NodeProps<BoxNode>): ReactElement => {
  const view = useBoxView(task?.name ?? "", "")
  if (task === null) {
    return (
      <div className="frame">
        <div className="frame-head">
          <span className="box-name">{box.label}</span>
        </div>
      </div>
    )
  }
  return (
    <div className={`frame${toneOf(view)}`}>
      <Ends />
      <div className="frame-head">
        <Opener box={box} task={task} view={view}>
          <span className="box-line">
            <StatusMark view={view} />
            <span className="box-name clip">{box.label}</span>
            <span className="box-about clip">{aboutOf(task)}</span>
          </span>
        </Opener>
        {fold === null ? null : <FoldButton task={task} fold={fold} />}
      </div>
    </div>
  )
})

const ORDER: readonly TaskStatus[] = ["success", "failed", "cancelled", "skipped", "running", "dispatched", "pending"]

/** The number of instances by status, as a bar. Other elements state the same as text. */
const CountBar = ({ counts }: { counts: Counts }): ReactElement => (
  <span className="count-bar" aria-hidden="true">
    {totalOf(counts) === 0
      ? null
      : ORDER.filter((status) => counts[status] > 0).map((status) => (
          <span
            key={status}
            className={`progress-part progress-${status} tone-${lookOf(status).tone}`}
            style={{ flexGrow: counts[status] }}
          />
        ))}
  </span>
)

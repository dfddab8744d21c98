// The drawn part of a graph: boxes and edges. An open group is a box around its tasks, a closed one a single box; a
// fan-out is one box, or a box around its instances when open. Pure; layout.ts computes positions.

/** The common fields of a workflow's and a run's task. */
export interface GraphTask {
  index: number
  name: string
  short: string
  executor: string
  isGroup: boolean
  hook: boolean
  fanOut: string | null
  group: number | null
  members: readonly number[]
  upstream: readonly number[]
  rule: string
  condition: string | null
  mayFail: boolean
}

export interface Box {
  id: string
  /** Id of the enclosing box. */
  parent: string | null
  kind: "task" | "instance" | "frame"
  /** null: the frame around hooks. */
  task: number | null
  /** Path of an instance: its indexes, joined by dots. */
  path: string
  /** Label of the box. */
  label: string
  width: number
  height: number
}

export interface Line {
  id: string
  from: string
  to: string
  /** A rule other than all_success, shown at the end of the edge. */
  rule: string | null
}

export interface Shape {
  boxes: Box[]
  lines: Line[]
  /** Identifies the shape: shapes with the same key have the same positions. */
  key: string
}

export interface Opened {
  /** Closed groups. */
  closed: ReadonlySet<string>
  /** Open fan-outs, with the paths of their instances. */
  fans: ReadonlyMap<string, readonly string[]>
}

const BOX_WIDTH = 208
const BOX_HEIGHT = 52
/** Height of a box with a progress bar. */
const FAN_HEIGHT = 68
const INSTANCE = { width: 168, height: 32 }
/** Largest number of instances that are drawn individually. */
export const MAX_INSTANCES = 60

export const HOOKS_ID = "·hooks"
export const instanceId = (name: string, path: string): string => `${name}[${path}]`

export const shapeOf = (tasks: readonly GraphTask[], { closed, fans }: Opened): Shape => {
  const boxes: Box[] = []
  const lines: Line[] = []
  const hidden = new Set<number>()
  for (const task of tasks.toSorted((a, b) => Number(a.hook) - Number(b.hook))) {
    if (task.hook && boxes.at(-1)?.parent !== HOOKS_ID) boxes.push(frame(HOOKS_ID, null, null, "After the run"))
    if (task.group !== null && (hidden.has(task.group) || closed.has(tasks[task.group]!.name))) {
      hidden.add(task.index)
      continue
    }
    const parent = task.hook ? HOOKS_ID : task.group === null ? null : tasks[task.group]!.name
    const paths = fans.get(task.name)
    if (task.isGroup && !closed.has(task.name)) boxes.push(frame(task.name, parent, task.index, task.short))
    else if (!task.isGroup && paths !== undefined) {
      boxes.push(frame(task.name, parent, task.index, task.short))
      for (const path of paths) boxes.push(instanceBox(task, path))
    } else boxes.push(taskBox(task, parent))
    for (const up of task.upstream) {
      const from = tasks[up]!.name
      lines.push({ id: `${from}→${task.name}`, from, to: task.name, rule: task.rule === "all_success" ? null : task.rule })
    }
  }
  return { boxes, lines, key: keyOf(boxes, lines) }
}

const frame = (id: string, parent: string | null, task: number | null, label: string): Box => ({
  id,
  parent,
  kind: "frame",
  task,
  path: "",
  label,
  width: BOX_WIDTH,
  height: BOX_HEIGHT,
})

const taskBox = (task: GraphTask, parent: string | null): Box => ({
  id: task.name,
  parent,
  kind: "task",
  task: task.index,
  path: "",
  label: task.short,
  width: BOX_WIDTH,
  height: task.fanOut === null && !task.isGroup ? BOX_HEIGHT : FAN_HEIGHT,
})

const instanceBox = (task: GraphTask, path: string): Box => ({
  id: instanceId(task.name, path),
  parent: task.name,
  kind: "instance",
  task: task.index,
  path,
  label: `[${path}]`,
  ...INSTANCE,
})

const keyOf = (boxes: readonly Box[], lines: readonly Line[]): string =>
  `${boxes.map(({ id, kind, height }) => `${kind[0]!}${height}${id}`).join(" ")}|${lines.map(({ id }) => id).join(" ")}`

/** Returns the nearest box in the direction of an arrow key. */
export const neighbour = (
  from: { x: number; y: number; width: number; height: number },
  others: Iterable<[string, { x: number; y: number; width: number; height: number }]>,
  direction: "left" | "right" | "up" | "down",
): string | null => {
  const middle = (box: { x: number; y: number; width: number; height: number }) => ({
    x: box.x + box.width / 2,
    y: box.y + box.height / 2,
  })
  const here = middle(from)
  let best: string | null = null
  let least = Infinity
  for (const [id, box] of others) {
    const there = middle(box)
    const dx = there.x - here.x
    const dy = there.y - here.y
    const [along, across] =
      direction === "left" ? [-dx, dy] : direction === "right" ? [dx, dy] : direction === "up" ? [-dy, dx] : [dy, dx]
    if (along < 4) continue
    // Prefer a box straight ahead to a slightly nearer one at the side.
    const cost = along + 2.5 * Math.abs(across)
    if (cost < least) {
      least = cost
      best = id
    }
  }
  return best
}

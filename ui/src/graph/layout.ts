// Layout: conversion to and from ELK's format, and a fast layered layout for graphs that are too large for ELK.
// Pure. Edges connect only boxes of the same level, so every level is laid out separately, innermost first.

import type { ElkNode } from "elkjs/lib/elk-api.js"
import { type Box, HOOKS_ID, type Shape } from "./model.ts"

export interface Place {
  /** Position relative to the parent. */
  x: number
  y: number
  width: number
  height: number
}

export type Places = Map<string, Place>

const GAP = { layers: 64, boxes: 20 }
const PADDING = { top: 56, side: 16 }
/** A layer with more boxes is split into columns. */
const COLUMN = 40
/** Largest graph that ELK lays out. */
const MAX_BOXES = 1000
const MAX_IN_LAYER = 80

const ROOT_OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.layered.spacing.nodeNodeBetweenLayers": String(GAP.layers),
  "elk.spacing.nodeNode": String(GAP.boxes),
  "elk.spacing.componentComponent": "40",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
} as const

const FRAME_OPTIONS = {
  ...ROOT_OPTIONS,
  "elk.padding": `[top=${PADDING.top},left=${PADDING.side},bottom=${PADDING.side},right=${PADDING.side}]`,
} as const

const childrenOf = ({ boxes }: Shape): Map<string | null, Box[]> => Map.groupBy(boxes, ({ parent }) => parent)

/** Converts to ELK's format. An empty frame keeps the size of a box. */
export const elkGraph = (shape: Shape): ElkNode => {
  const children = childrenOf(shape)
  const parents = new Map(shape.boxes.map(({ id, parent }) => [id, parent]))
  const lines = Map.groupBy(shape.lines, ({ from }) => parents.get(from) ?? null)
  const edgesOf = (scope: string | null) =>
    (lines.get(scope) ?? []).map(({ id, from, to }) => ({ id, sources: [from], targets: [to] }))
  const node = ({ id, width, height }: Box): ElkNode => {
    const inside = children.get(id)
    if (inside === undefined) return { id, width, height }
    return { id, layoutOptions: FRAME_OPTIONS, children: inside.map(node), edges: edgesOf(id) }
  }
  return {
    id: "·root",
    layoutOptions: ROOT_OPTIONS,
    children: (children.get(null) ?? []).map(node),
    edges: edgesOf(null),
  }
}

export const placesOf = (root: ElkNode): Places => {
  const places: Places = new Map()
  const take = ({ id, x = 0, y = 0, width = 0, height = 0, children = [] }: ElkNode): void => {
    places.set(id, { x, y, width, height })
    children.forEach(take)
  }
  root.children?.forEach(take)
  return places
}

/** Reports whether the graph is small enough for ELK. */
export const isForElk = (shape: Shape): boolean => {
  if (shape.boxes.length > MAX_BOXES) return false
  const scopes = childrenOf(shape)
  return [...scopes.values()].every((boxes) => layersOf(boxes, shape).every((layer) => layer.length <= MAX_IN_LAYER))
}

/** Places hooks below the rest, because they have no edges. */
export const besideHooks = async (shape: Shape, layOut: (rest: Shape) => Promise<Places | null>): Promise<Places | null> => {
  const places = await layOut(withoutHooks(shape))
  return places === null ? null : addHooks(places, shape)
}

const ofHooks = ({ id, parent }: Box): boolean => id === HOOKS_ID || parent === HOOKS_ID

const withoutHooks = (shape: Shape): Shape => ({ ...shape, boxes: shape.boxes.filter((box) => !ofHooks(box)) })

const addHooks = (places: Places, shape: Shape): Places => {
  const hooks = layered({ ...shape, boxes: shape.boxes.filter(ofHooks) })
  const frame = hooks.get(HOOKS_ID)
  if (frame === undefined) return places
  const top = shape.boxes.flatMap(({ id, parent }) => (parent === null && id !== HOOKS_ID ? (places.get(id) ?? []) : []))
  const bottom = Math.max(0, ...top.map(({ y, height }) => y + height))
  return new Map([...places, ...hooks, [HOOKS_ID, { ...frame, x: 0, y: bottom + 2 * GAP.boxes }]])
}

/** Lays out in time proportional to the number of boxes and edges. */
export const fastLayout = (shape: Shape): Places => addHooks(layered(withoutHooks(shape)), shape)

const layered = (shape: Shape): Places => {
  const children = childrenOf(shape)
  const places: Places = new Map()
  const layOut = (scope: string | null): { width: number; height: number } => {
    const boxes = children.get(scope)!
    const sizes = new Map(
      boxes.map(({ id, width, height }) => [id, children.has(id) ? layOut(id) : { width, height }] as const),
    )
    const top = scope === null ? 0 : PADDING.top
    const side = scope === null ? 0 : PADDING.side
    const columns = ordered(layersOf(boxes, shape), shape).flatMap(broken)
    const heights = columns.map((column) => sum(column.map(({ id }) => sizes.get(id)!.height + GAP.boxes)) - GAP.boxes)
    const height = Math.max(0, ...heights)
    let x = side
    for (const [i, column] of columns.entries()) {
      const width = Math.max(...column.map(({ id }) => sizes.get(id)!.width))
      let y = top + (height - heights[i]!) / 2
      for (const { id } of column) {
        const size = sizes.get(id)!
        places.set(id, { x, y, ...size })
        y += size.height + GAP.boxes
      }
      x += width + GAP.layers
    }
    return { width: x - GAP.layers + side, height: top + height + (scope === null ? 0 : PADDING.side) }
  }
  if (children.has(null)) layOut(null)
  return places
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

const broken = (layer: Box[]): Box[][] => {
  if (layer.length <= COLUMN) return [layer]
  // Arrange instances of a fan-out, and many parallel tasks, in a roughly square block.
  const rows = Math.max(12, Math.ceil(Math.sqrt(layer.length * (layer[0]!.width / layer[0]!.height))))
  return Array.from({ length: Math.ceil(layer.length / rows) }, (_, i) => layer.slice(i * rows, (i + 1) * rows))
}

/** Assigns layers by the longest path from a box without dependencies. */
const layersOf = (boxes: readonly Box[], { lines }: Shape): Box[][] => {
  const here = new Map(boxes.map((box) => [box.id, box]))
  const down = Map.groupBy(
    lines.filter(({ from, to }) => here.has(from) && here.has(to)),
    ({ from }) => from,
  )
  const left = new Map(boxes.map(({ id }) => [id, 0]))
  for (const each of down.values()) for (const { to } of each) left.set(to, left.get(to)! + 1)
  const layers: Box[][] = []
  let next = boxes.filter(({ id }) => left.get(id) === 0)
  while (next.length > 0) {
    layers.push(next)
    const following: Box[] = []
    for (const { id } of next) {
      for (const { to } of down.get(id) ?? []) {
        left.set(to, left.get(to)! - 1)
        if (left.get(to) === 0) following.push(here.get(to)!)
      }
    }
    next = following
  }
  return layers
}

/** Orders each layer by the mean position of its upstream boxes, which reduces crossings. */
const ordered = (layers: Box[][], { lines }: Shape): Box[][] => {
  const ups = Map.groupBy(lines, ({ to }) => to)
  const places = new Map<string, number>()
  return layers.map((layer) => {
    const weight = ({ id }: Box, own: number): number => {
      const found = (ups.get(id) ?? []).flatMap(({ from }) => places.get(from) ?? [])
      return found.length === 0 ? own / Math.max(1, layer.length) : sum(found) / found.length
    }
    const sorted = layer
      .map((box, i) => ({ box, weight: weight(box, i) }))
      .toSorted((a, b) => a.weight - b.weight)
      .map(({ box }) => box)
    sorted.forEach(({ id }, i) => places.set(id, i / Math.max(1, sorted.length)))
    return sorted
  })
}

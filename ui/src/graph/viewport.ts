// Computes which part of a graph is shown, and how large. Pure.

import type { Place } from "./layout.ts"

export interface Viewport {
  x: number
  y: number
  zoom: number
}

export interface Size {
  width: number
  height: number
}

/** Smallest zoom at which text is readable and buttons can be clicked. */
export const READABLE = 0.62
const MARGIN = 24
/** The corner that the toolbar covers, with its margins. */
const TOOLS: Size = { width: 148, height: 60 }
/** Height of a box that must be visible. */
const VISIBLE_HEIGHT = 30
/** Height of the part of a tall box that is centred: its top. */
const MAX_HEIGHT = 200

const boundsOf = (places: Iterable<Place>): Size => {
  let width = 1
  let height = 1
  for (const place of places) {
    width = Math.max(width, place.x + place.width)
    height = Math.max(height, place.y + place.height)
  }
  return { width, height }
}

/** Returns the zoom at which the whole graph is visible, at most 1. */
export const fittingZoom = (places: Iterable<Place>, frame: Size): number => {
  const { width, height } = boundsOf(places)
  return Math.min(1, (frame.width - 2 * MARGIN) / width, (frame.height - TOOLS.height - MARGIN) / height)
}

/** Shows the whole graph; if its zoom would be less than `least`, the part around the first box. */
export const wholeView = (places: readonly Place[], frame: Size, least: number): Viewport => {
  const bounds = boundsOf(places)
  const zoom = Math.max(least, fittingZoom(places, frame))
  const first = places.reduce<Place | null>((found, place) => (found === null || place.x < found.x ? place : found), null)
  const width = bounds.width * zoom
  const height = bounds.height * zoom
  const middle = first === null ? 0 : (first.y + Math.min(first.height, MAX_HEIGHT) / 2) * zoom
  return {
    x: width > frame.width - 2 * MARGIN ? MARGIN : (frame.width - width) / 2,
    y:
      height > frame.height - TOOLS.height - MARGIN
        ? Math.min(TOOLS.height, Math.max(frame.height - MARGIN - height, frame.height / 2 - middle))
        : Math.max(TOOLS.height, (frame.height - height) / 2),
    zoom,
  }
}

/** Returns whether a box is visible, readable and not below the toolbar. */
export const isInSight = (place: Place, { x, y, zoom }: Viewport, frame: Size): boolean => {
  const left = place.x * zoom + x
  const top = place.y * zoom + y
  // Of a wide box, half a frame is enough.
  const right = left + Math.min(place.width * zoom, frame.width / 2)
  const inside = left >= 0 && top >= 0 && right <= frame.width && top + VISIBLE_HEIGHT < frame.height
  const covered = left < TOOLS.width && top < TOOLS.height
  return inside && !covered && zoom >= 0.45
}

export const centredOn = (place: Place, frame: Size, zoom: number): Viewport => ({
  x: frame.width / 2 - (place.x + place.width / 2) * zoom,
  y: frame.height / 2 - (place.y + Math.min(place.height, MAX_HEIGHT) / 2) * zoom,
  zoom,
})

// The icons: strokes on a grid of 16, in the colour of the surrounding text.

import type { ReactElement } from "react"

const PATHS = {
  arrow: "M3 8h9M8.5 4.5 12 8l-3.5 3.5",
  block: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM4.2 4.2l7.6 7.6",
  calendar: "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.2v3M10.5 2.2v3",
  check: "M3 8.5 6.5 12 13 4.5",
  chevron: "M6 3.5 10.5 8 6 12.5",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM8 5v3.2l2.2 1.4",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  cross: "M4 4l8 8M12 4l-8 8",
  download: "M8 2.5v8M4.8 7.5 8 10.7l3.2-3.2M3 13.5h10",
  fit: "M2.5 6v-3.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  graph: "M3.5 8h3M9.5 4.5C7.5 4.5 8 8 6.5 8S7.5 11.5 9.5 11.5M10 3h3.5v3H10zM10 10h3.5v3H10zM1.5 6.5h2v3h-2z",
  info: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM8 7.2v3.6M8 5.1v.1",
  key: "M10.2 2.8a3 3 0 1 1-2.4 4.9L3 12.5v1.2h2.2v-1.6h1.6v-1.6h1.4l1-1M11 5.2v.1",
  keyboard: "M1.8 4h12.4v8H1.8zM4.2 6.6v.1M6.7 6.6v.1M9.3 6.6v.1M11.8 6.6v.1M5 9.5h6",
  jobs: "M2.5 3h11v3h-11zM2.5 6.5h11v3h-11zM2.5 10h11v3h-11z",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  moon: "M12.8 9.7A5.5 5.5 0 0 1 6.3 3.2a5.3 5.3 0 1 0 6.5 6.5Z",
  minus: "M3 8h10",
  more: "M3.5 8v.1M8 8v.1M12.5 8v.1",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  plus: "M8 3v10M3 8h10",
  question: "M5.8 6a2.2 2.2 0 1 1 3.3 1.9c-.8.5-1.1.9-1.1 1.7M8 12v.1",
  retry: "M13 8a5 5 0 1 1-1.6-3.7L13 5.8M13 2.6v3.2H9.8",
  runs: "M2.5 4h5M2.5 8h9M2.5 12h11M9.5 2.8v2.4M13.5 6.8v2.4",
  search: "M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4ZM10.2 10.2l3.3 3.3",
  signout: "M6.5 2.8h-4v10.4h4M6.5 8h7M10.8 5.2 13.5 8l-2.7 2.8",
  skip: "M4 3.5 9.5 8 4 12.5zM12 3.5v9",
  spinner: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5",
  stop: "M4 4h8v8H4z",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6ZM8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  system: "M2 12.5h12M3.5 10.5v-4M6.5 10.5v-7M9.5 10.5v-5M12.5 10.5v-8",
  up: "M8 12.5v-9M4.5 7 8 3.5 11.5 7",
  down: "M8 3.5v9M4.5 9 8 12.5 11.5 9",
  trash: "M3 4.5h10M6 4.5V2.8h4v1.7M4.5 4.5l.6 8.7h5.8l.6-8.7",
  warning: "M8 2.6 14 13H2zM8 6.6v3M8 11.3v.1",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5v.1M5 11v.1",
  workflows: "M2.5 2.5h4v4h-4zM9.5 9.5h4v4h-4zM4.5 6.5v5h5M6.5 4.5h5v5",
} as const

export type IconName = keyof typeof PATHS

/** Hidden from screen readers, because an icon is always next to a word or inside a named element. */
export const Icon = ({ name, className = "" }: { name: IconName; className?: string }): ReactElement => (
  <svg className={`icon icon-${name} ${className}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
)

// The appearance of each status: icon, word and tone, so that colour is never the only sign. One table for runs, tasks, attempts and jobs.

import type { AttemptState, JobStatus, RunStatus, TaskStatus } from "../api/types.ts"
import type { IconName } from "./icon.tsx"

/** A colour of styles/tokens.css: `--success`, `--success-ink`, `--success-wash`. */
export type Tone = "success" | "failed" | "running" | "waiting" | "ready" | "skipped" | "cancelled" | "paused"

export type AnyStatus = RunStatus | TaskStatus | AttemptState | JobStatus | "paused" | "waiting" | "alive" | "dead"

export interface Look {
  tone: Tone
  icon: IconName
  text: string
}

const LOOKS = {
  pending: { tone: "waiting", icon: "clock", text: "pending" },
  dispatched: { tone: "ready", icon: "arrow", text: "dispatched" },
  running: { tone: "running", icon: "spinner", text: "running" },
  success: { tone: "success", icon: "check", text: "success" },
  failed: { tone: "failed", icon: "cross", text: "failed" },
  skipped: { tone: "skipped", icon: "skip", text: "skipped" },
  cancelled: { tone: "cancelled", icon: "stop", text: "cancelled" },
  timeout: { tone: "failed", icon: "clock", text: "timed out" },
  lost: { tone: "cancelled", icon: "question", text: "lost" },
  paused: { tone: "paused", icon: "pause", text: "paused" },
  waiting: { tone: "waiting", icon: "clock", text: "waiting" },
  alive: { tone: "success", icon: "check", text: "alive" },
  dead: { tone: "failed", icon: "cross", text: "gone" },
  PENDING: { tone: "waiting", icon: "clock", text: "pending" },
  READY: { tone: "ready", icon: "arrow", text: "ready" },
  RUNNING: { tone: "running", icon: "spinner", text: "running" },
  COMPLETED: { tone: "success", icon: "check", text: "completed" },
  FAILED: { tone: "failed", icon: "cross", text: "failed" },
  BLOCKED: { tone: "cancelled", icon: "block", text: "blocked" },
} as const satisfies Record<AnyStatus, Look>

export const lookOf = (status: AnyStatus): Look => LOOKS[status]

// What must not grow while a server runs: its memory, open files and connections, and the rows per run.

import { readdirSync, readFileSync } from "node:fs"
import { ask } from "../../support/components/postgres.ts"

export interface Sample {
  /** Hours since the first sample. */
  hours: number
  memoryMb: number
  files: number
  connections: number
  rows: number
  runs: number
}

const ROWS = `SELECT COALESCE(sum((xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM ork.%I', tablename), false, true, '')))[1]::text::bigint), 0)::int AS rows
  FROM pg_tables WHERE schemaname = 'ork'`
const CONNECTIONS = "SELECT count(*)::int AS connections FROM pg_stat_activity WHERE application_name LIKE 'ork%'"
const RUNS = "SELECT count(*)::int AS runs FROM ork.runs"

/** Reads the gauges; null while Postgres does not respond. */
export const sample = async (pid: number, databaseUrl: string, hours: number): Promise<Sample | null> => {
  try {
    const [{ rows }] = (await ask<{ rows: number }>(databaseUrl, ROWS)) as [{ rows: number }]
    const [{ connections }] = (await ask<{ connections: number }>(databaseUrl, CONNECTIONS)) as [{ connections: number }]
    const [{ runs }] = (await ask<{ runs: number }>(databaseUrl, RUNS)) as [{ runs: number }]
    const memoryKb = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1])
    return { hours, memoryMb: memoryKb / 1024, files: readdirSync(`/proc/${pid}/fd`).length, connections, rows, runs }
  } catch {
    return null
  }
}

/** Returns the least value of each of `count` windows: garbage that is not collected yet is no growth. */
const floors = (
  samples: readonly Sample[],
  value: (sample: Sample) => number,
  count: number,
): [hours: number, value: number][] => {
  const size = Math.ceil(samples.length / count)
  return Array.from({ length: Math.ceil(samples.length / size) }, (_, i) => samples.slice(i * size, (i + 1) * size)).map(
    (window) => [window[0]!.hours, Math.min(...window.map(value))],
  )
}

const WINDOWS = 12

/** Returns the growth per hour after the first quarter, in which caches fill. */
export const slope = (samples: readonly Sample[], value: (sample: Sample) => number): number => {
  const points = floors(samples.slice(Math.floor(samples.length / 4)), value, WINDOWS)
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
  return spread === 0 ? 0 : points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread
}

import { useQuery } from "@tanstack/react-query"
import type { ReactElement, ReactNode } from "react"
import { statsQuery } from "../../api/queries.ts"
import { shortBytes } from "../../../../src/core/values/quantities.ts"
import { Loaded } from "../../components/states.tsx"
import { countText } from "../../format/count.ts"
import { durationText, plural } from "../../format/time.ts"

/** Current statistics as tiles. */
export const Tiles = (): ReactElement => {
  const query = useQuery(statsQuery)
  return (
    <Loaded query={query} what="Loading the figures">
      {(stats) => (
        <dl className="tiles">
          <Tile name="Runs" value={countText(stats.runs.running)} about={`${countText(stats.runs.pending)} pending`} />
          <Tile
            name="Tasks running"
            value={countText(stats.queues.running)}
            about={`on ${plural(stats.workers.alive, "worker")}`}
          />
          <Tile
            name="Tasks ready"
            value={countText(stats.queues.ready)}
            about={
              stats.queues.oldest_ready_seconds === null
                ? "nothing waits"
                : `oldest ${durationText(stats.queues.oldest_ready_seconds * 1000)}`
            }
          />
          <Tile name="Database" value={shortBytes(stats.database_bytes)} about={stats.store} />
          <Tile
            name="Logs and outputs"
            value={stats.objects_bytes === null ? "–" : shortBytes(stats.objects_bytes)}
            about={`${stats.objects} store`}
          />
          <Tile name="Up for" value={durationText(stats.uptime_seconds * 1000)} about={`version ${stats.version}`} />
        </dl>
      )}
    </Loaded>
  )
}

const Tile = ({ name, value, about }: { name: string; value: ReactNode; about: string }): ReactElement => (
  <div className="card tile">
    <dt>{name}</dt>
    <dd className="tile-value number">{value}</dd>
    <dd className="soft small">{about}</dd>
  </div>
)

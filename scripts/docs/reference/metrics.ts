// The table of the metrics of a server.

import { Metrics } from "../../../src/server/metrics/metrics.ts"
import { codeText, markdownTable } from "./table.ts"

type MetricsStore = ConstructorParameters<typeof Metrics>[0]

export const metricTable = (): string => {
  // The store is read only by a scrape.
  const metrics = new Metrics({} as MetricsStore, "")
  metrics.stop()
  return markdownTable(
    ["name", "type", "labels", "what"],
    metrics
      .list()
      .toSorted((a, b) => a.name.localeCompare(b.name))
      .map(({ name, type, help, labels }) => [codeText(name), type, labels.map(codeText).join(", "), help]),
  )
}

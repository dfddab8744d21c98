// The artifacts of a task: downloads, and previews of texts, JSON and images.

import { type ReactElement, useState } from "react"
import { useQuery } from "@tanstack/react-query"
import { artifactPreviewQuery, artifactsQuery, artifactUrl } from "../../api/queries.ts"
import { shortBytes } from "../../../../src/core/values/quantities.ts"
import type { Artifacts, Task } from "../../api/types.ts"
import { Code, JsonView } from "../../components/code.tsx"
import { ProblemState } from "../../components/states.tsx"
import { Table } from "../../components/table.tsx"
import { isImage } from "../../api/preview.ts"

type Artifact = Artifacts["items"][number]

const COLUMNS = ["File", { text: "Size", className: "end" }, { hidden: "Actions" }]

/** Shows nothing for a task without artifacts. */
export const TaskArtifacts = ({ task }: { task: Task }): ReactElement | null =>
  task.work?.artifacts == null || task.status !== "success" ? null : <ArtifactList task={task} />

const ArtifactList = ({ task }: { task: Task }): ReactElement => {
  const [viewed, setViewed] = useState<string | null>(null)
  const query = useQuery(artifactsQuery(task))
  const items = query.data?.items ?? []
  const chosen = items.find(({ path }) => path === viewed)
  return (
    <section className="stack" aria-label="Artifacts">
      <h3>Artifacts</h3>
      {query.isError ? <ProblemState error={query.error} retry={() => void query.refetch()} /> : null}
      <div className="table-frame" tabIndex={0} role="region" aria-label="Artifacts, rows">
        <Table columns={COLUMNS}>
          {items.map((artifact) => (
            <tr key={artifact.path}>
              <td>
                <button
                  type="button"
                  className="link"
                  aria-expanded={artifact.path === viewed}
                  onClick={() => setViewed(artifact.path === viewed ? null : artifact.path)}
                >
                  {artifact.path}
                </button>
              </td>
              <td className="fit end">{shortBytes(artifact.bytes)}</td>
              <td className="fit">
                <a href={artifactUrl(task, artifact.path)} download aria-label={`Download ${artifact.path}`}>
                  Download
                </a>
              </td>
            </tr>
          ))}
        </Table>
      </div>
      {chosen === undefined ? null : <Content key={chosen.path} task={task} artifact={chosen} />}
    </section>
  )
}

const Content = ({ task, artifact }: { task: Task; artifact: Artifact }): ReactElement =>
  isImage(artifact.path) ? (
    <img className="artifact-image" src={artifactUrl(task, artifact.path)} alt={artifact.path} />
  ) : (
    <TextContent task={task} artifact={artifact} />
  )

const TextContent = ({ task, artifact }: { task: Task; artifact: Artifact }): ReactElement | null => {
  const { data, isError, error, refetch } = useQuery(artifactPreviewQuery(task, artifact))
  if (isError) return <ProblemState error={error} retry={() => void refetch()} />
  if (data === undefined) return null
  const { preview, complete } = data
  if (preview.kind === "json") return <JsonView value={preview.value} label={artifact.path} />
  if (preview.kind !== "text") return <p className="soft">This file is no text. Download it to open it.</p>
  return (
    <>
      <Code text={preview.text} label={artifact.path} />
      {complete ? null : <p className="soft">The beginning of the file. Download it to see the rest.</p>}
    </>
  )
}

import type { ReactElement, ReactNode } from "react"

/** A text, or a text with the class of its cell. A hidden text is read to users who cannot see the table. */
export type Column = string | { text: string; className: string } | { hidden: string }

const Head = ({ column }: { column: Column }): ReactElement => {
  if (typeof column === "string") return <th scope="col">{column}</th>
  return "hidden" in column ? (
    <th scope="col">
      <span className="hidden">{column.hidden}</span>
    </th>
  ) : (
    <th scope="col" className={column.className}>
      {column.text}
    </th>
  )
}

/** A table with one header row. `first`: a header cell before those of `columns`. */
export const Table = (props: { columns: readonly Column[]; first?: ReactNode; children: ReactNode }): ReactElement => (
  <table className="table">
    <thead>
      <tr>
        {props.first}
        {props.columns.map((column, i) => (
          <Head key={i} column={column} />
        ))}
      </tr>
    </thead>
    <tbody>{props.children}</tbody>
  </table>
)

import type { ReactElement, ReactNode } from "react"

/** A list of names and values. */
export const Facts = ({ facts }: { facts: readonly (readonly [string, ReactNode] | null)[] }): ReactElement => (
  <dl className="facts">
    {facts
      .filter((fact) => fact !== null)
      .map(([name, value]) => (
        <div key={name} className="fact">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
)

// What an engine in a program reports to `ork dev`, which has started the program.

import { resolve } from "node:path"

export interface OpenedReport {
  ork: "opened"
  database: string
  objects: string
}

/** Addresses of files are absolute: `ork dev` may run in another folder. */
export const reportOpened = ({ database, objects }: Omit<OpenedReport, "ork">): void => {
  if (process.env["ORK_DEV"] !== "1") return
  const report: OpenedReport = { ork: "opened", database: absolute(database, "sqlite:"), objects: absolute(objects, "file:") }
  process.send?.(report)
}

const absolute = (address: string, scheme: string): string =>
  address.startsWith(scheme) ? `${scheme}${resolve(address.slice(scheme.length))}` : address

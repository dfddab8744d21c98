// The addresses and TLS of a server or a listening worker. Plain HTTP for other machines has to be asked for.

import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import type { Config } from "../config.ts"

export interface Tls {
  cert: string
  key: string
}

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host)

/** Returns why Ork must not listen at this address, or null. `tls`: whether the connections are encrypted. */
export const listenProblem = ({ host, insecureHttp }: Pick<Config, "host" | "insecureHttp">, tls: boolean): string | null =>
  tls || insecureHttp || isLoopback(host)
    ? null
    : `${host} is reachable from other machines, and plain HTTP shows them keys and data: give --tls-cert and --tls-key, or --insecure-http (ORK_INSECURE_HTTP=true) if a proxy or a private network protects the connections`

/** Reads the certificate and its key. Returns null without TLS; throws an error for people. */
export const readTls = async ({ tlsCert, tlsKey }: Pick<Config, "tlsCert" | "tlsKey">, cwd: string): Promise<Tls | null> => {
  if (tlsCert === "" && tlsKey === "") return null
  if (tlsCert === "" || tlsKey === "") throw new Error("TLS needs both --tls-cert and --tls-key")
  const read = (file: string): Promise<string> => readFile(resolve(cwd, file), "utf8")
  return { cert: await read(tlsCert), key: await read(tlsKey) }
}

// Rejects requests whose Host header names another site: the page of that site would reach this server through a DNS name that resolves
// to it. Accepted are addresses, names without a dot, names below `localhost` and of Kubernetes services, the name of the machine, and
// the names of the settings `url`, `host` and `allowed_hosts`.

import { isIP } from "node:net"
import { hostname } from "node:os"
import type { FastifyInstance } from "fastify"
import { ApiError } from "../shared/errors.ts"

const LOCAL_SUFFIXES = [".localhost", ".svc", ".svc.cluster.local"]

export const checkHosts = (app: FastifyInstance, allowed: readonly string[]): void => {
  const isAllowed = hostMatcher([...allowed, hostname()])
  app.addHook("onRequest", (request, _reply, done) => {
    const { host } = request.headers
    if (host === undefined || isAllowed(host)) return done()
    const name = nameOf(host).slice(0, 200)
    done(new ApiError("FORBIDDEN", `this server is not ${name}; set ORK_URL or ORK_ALLOWED_HOSTS if it is`))
  })
}

/** Returns a function that tells whether a Host header is accepted. An entry `*.example.com` stands for every name below it. */
export const hostMatcher = (allowed: readonly string[]): ((host: string) => boolean) => {
  const names = new Set(allowed.map((name) => name.toLowerCase()))
  const suffixes = [...names].filter((name) => name.startsWith("*.")).map((name) => name.slice(1))
  return (host) => {
    const name = nameOf(host)
    if (names.has("*") || names.has(name) || isIP(name) !== 0) return true
    if (/^[a-z0-9_-]+$/.test(name)) return true
    return [...LOCAL_SUFFIXES, ...suffixes].some((suffix) => name.endsWith(suffix))
  }
}

/** Returns the name of a Host header in lower case, without port, brackets and the final dot. */
const nameOf = (host: string): string =>
  host
    .toLowerCase()
    .replace(/:\d*$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "")

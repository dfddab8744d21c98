// Failpoints: named moments before and after each operation of the ports that the composition root provides. A point is named
// `AREA.OPERATION:before` or `:after`, such as `store.advance:after`. Only the campaigns use them: they start the built command through
// ork.ts, which wraps the ports. The command itself contains none of this.

import { ServerResponse } from "node:http"
import { subscribe } from "node:diagnostics_channel"
import type { Context } from "../../../src/cli/target/context.ts"
import type { Executor } from "../../../src/executors/executor.ts"

/** Called at every point. */
type Reach = (point: string) => void

export interface Listener {
  reach: Reach
  /** Called with each operation that has points, whether it is called or not. */
  offer(operation: string): void
}

/** Wraps the ports of the context, and HTTP in this process. */
export const withFailpoints = (context: Context, listener: Listener): Context => {
  const { reach } = listener
  watchHttp(reach)
  const { backends } = context
  return {
    ...context,
    backends: {
      ...backends,
      async openStore(config, options) {
        const store = await around("store.open", reach, () => backends.openStore(config, options))
        return store === null ? null : wrapPort(store, "store", listener)
      },
      openObjects: async (config) => wrapPort(await backends.openObjects(config), "objects", listener),
      async engineParts(config, objects, use) {
        const parts = await backends.engineParts(config, objects, use)
        for (const name of parts.executors.keys()) listener.offer(`spawn.${name}`)
        const executors = [...parts.executors].map(([name, executor]) => [name, wrapExecutor(executor, reach)] as const)
        return { ...parts, executors: new Map(executors) }
      },
    },
  }
}

const around = async <T>(name: string, reach: Reach, operation: () => Promise<T>): Promise<T> => {
  reach(`${name}:before`)
  const result = await operation()
  reach(`${name}:after`)
  return result
}

/** Puts a point before and after each call that returns a promise. */
const wrapPort = <T extends object>(port: T, area: string, { reach, offer }: Listener): T => {
  for (const name of functionsOf(port)) offer(`${area}.${name}`)
  return new Proxy(port, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== "function" || typeof name === "symbol") return member
      return (...args: unknown[]): unknown => {
        reach(`${area}.${name}:before`)
        const result: unknown = Reflect.apply(member, target, args)
        if (!(result instanceof Promise)) return result
        return result.then((value: unknown) => {
          reach(`${area}.${name}:after`)
          return value
        })
      }
    },
  })
}

/** Returns the names of the methods of an object and its classes. */
const functionsOf = (port: object): string[] => {
  const names = new Set<string>()
  for (let at: object = port; at !== Object.prototype; at = Object.getPrototypeOf(at) as object) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value === "function" && name !== "constructor") names.add(name)
    }
  }
  return [...names]
}

/** Puts points around the launch of an attempt and at the start of its work. */
const wrapExecutor = (executor: Executor, reach: Reach): Executor =>
  new Proxy(executor, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== "function") return member
      if (name !== "launch") return member.bind(target) as unknown
      const launch: Executor["launch"] = (assignment, context) =>
        around(`spawn.${target.name}`, reach, () =>
          target.launch(assignment, {
            signal: context.signal,
            progress: (update) => context.progress(update),
            started(info) {
              reach(`spawn.${target.name}.started:before`)
              context.started(info)
              reach(`spawn.${target.name}.started:after`)
            },
          }),
        )
      return launch
    },
  })

/** Puts points around the requests that this process receives, its replies, and the requests that it sends. */
const watchHttp = (reach: Reach): void => {
  subscribe("http.server.request.start", () => reach("http.request:before"))
  subscribe("http.server.response.finish", () => reach("http.response:after"))
  const end = ServerResponse.prototype.end as (...args: unknown[]) => ServerResponse
  ServerResponse.prototype.end = function (this: ServerResponse, ...args: unknown[]) {
    reach("http.response:before")
    return Reflect.apply(end, this, args)
  }
  const send = globalThis.fetch
  globalThis.fetch = (...args) => around("http.fetch", reach, () => send(...args))
}

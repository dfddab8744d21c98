// Opens the database and the object store of a command, and closes them when it is done.

import type { Context } from "./context.ts"
import { InputError } from "../terminal/errors.ts"
import { loadConfig, type StoreFlags } from "./load-config.ts"
import type { Config } from "../../config.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export interface OpenStores {
  config: Config
  store: ServerStore
  objects: ObjectStore
}

/** Calls `use` with the existing stores. Throws an InputError if there is no database. */
export const withStores = async <T>(
  context: Context,
  flags: StoreFlags,
  use: (stores: OpenStores) => Promise<T>,
): Promise<T> => {
  const config = await loadConfig(context, { databaseUrl: flags.databaseUrl, objectStore: flags.objectStore })
  const store = await context.backends.openStore(config, { create: false })
  if (store === null) {
    throw new InputError(
      `there are no runs in ${config.databaseUrl} yet; start one with \`ork run FILE\`, or change to another folder`,
    )
  }
  try {
    return await use({ config, store, objects: await context.backends.openObjects(config) })
  } finally {
    await store.close()
  }
}

/** Opens the object store for work that writes logs and outputs. Throws an InputError if it cannot be written. */
export const openWritableObjects = async (context: Context, config: Config): Promise<ObjectStore> => {
  const objects = await context.backends.openObjects(config)
  await objects.check().catch((error: unknown) => {
    throw new InputError(`${messageOf(error)}; point ORK_OBJECT_STORE at one that can be written`)
  })
  return objects
}

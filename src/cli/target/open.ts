// Opens what a command needs, and closes it whatever happens.

import { messageOf } from "../../core/model/error-message.ts"
import type { Context } from "./backends.ts"
import { InputError } from "../terminal/errors.ts"
import { loadConfig, type StoreFlags } from "./settings.ts"
import type { Config } from "../../config.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

export interface Opened {
  config: Config
  store: ServerStore
  objects: ObjectStore
}

/** Calls `use` with the stores of this folder; makes none where there are none. */
export const withStores = async <T>(context: Context, flags: StoreFlags, use: (opened: Opened) => Promise<T>): Promise<T> => {
  const config = await loadConfig(context, { databaseUrl: flags.databaseUrl, objectStore: flags.objectStore })
  const store = await context.backends.openStore(config, { create: false })
  if (store === null) {
    throw new InputError(
      `there are no runs in ${config.databaseUrl} yet; start one with \`ork run FILE\`, or look in another folder`,
    )
  }
  try {
    return await use({ config, store, objects: await context.backends.openObjects(config) })
  } finally {
    await store.close()
  }
}

/** For work that writes logs and outputs: refused at once where they could not be kept, rather than lost one by one. */
export const openWritableObjects = async (context: Context, config: Config): Promise<ObjectStore> => {
  const objects = await context.backends.openObjects(config)
  await objects.check().catch((error: unknown) => {
    const reason = messageOf(error)
    throw new InputError(`${reason}; point ORK_OBJECT_STORE at one that can be written`)
  })
  return objects
}

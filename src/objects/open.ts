// Opens the object store of an address. The clients of cloud stores are loaded when an address names them.

import type { ObjectAddress } from "../core/settings/object-address.ts"
import { explainMissing } from "../core/settings/optional-packages.ts"
import { FileObjectStore } from "./file/file.ts"
import type { ObjectStore } from "./objects.ts"

export const openObjectStore = async (address: ObjectAddress): Promise<ObjectStore> => {
  switch (address.kind) {
    case "file":
      return new FileObjectStore(address.folder)
    case "s3": {
      const { S3ObjectStore } = await import("./s3/s3.ts").catch(explainMissing("an object store at s3://"))
      return new S3ObjectStore(address)
    }
    case "gcs": {
      const { GcsObjectStore } = await import("./gcs/gcs.ts").catch(explainMissing("an object store at gs://"))
      return new GcsObjectStore(address)
    }
    default:
      return address satisfies never
  }
}

// What the cluster shows of each attempt in one namespace: its Job and its pod, kept up to date by one watch for each of the two kinds.

import type { Clock } from "../../core/model/ports.ts"
import type { Cluster } from "./cluster.ts"
import { ListWatch, type WatchLog } from "./list-watch.ts"
import { corePath, isOlder, type JobObject, jobsPath, LABELS, type PodObject, slim, type Watched } from "./shapes.ts"

export interface NamespaceParts {
  cluster: Cluster
  clock: Clock
  log: WatchLog
}

/** The latest that is known of one object. Once gone it stays gone. */
export class Latest<T extends Watched> {
  object: T | null = null
  /** As it last was before anybody deleted it. */
  calm: T | null = null
  gone = false
  /** It went while nobody looked: how it last was is not known. */
  vanished = false

  /** False: it was known. Late and repeated news change nothing. */
  see(object: T): boolean {
    const { object: known } = this
    if (known !== null) {
      const same = known.metadata.uid === object.metadata.uid
      if (same && (this.gone || known.metadata.resourceVersion === object.metadata.resourceVersion)) return false
      if (isOlder(object.metadata.resourceVersion, known.metadata.resourceVersion)) return false
    }
    this.#keep(object)
    this.gone = false
    this.vanished = false
    return true
  }

  /** With how it last looked, if that is known. */
  remove(object: T | null): boolean {
    if (this.object === null || this.gone) return false
    if (object !== null && object.metadata.uid !== this.object.metadata.uid) return false
    if (object !== null) this.#keep(object)
    this.vanished = object === null
    this.gone = true
    return true
  }

  /** A list of all there are at a version. */
  list(uids: ReadonlySet<string>, version: string): boolean {
    const { object } = this
    if (object === null || uids.has(object.metadata.uid) || isOlder(version, object.metadata.resourceVersion)) return false
    return this.remove(null)
  }

  #keep(object: T): void {
    const another = this.object?.metadata.uid !== object.metadata.uid
    this.object = slim(object)
    if (object.metadata.deletionTimestamp === undefined) this.calm = this.object
    else if (another) this.calm = null
  }
}

export class Sight {
  readonly job = new Latest<JobObject>()
  readonly pod = new Latest<PodObject>()
  readonly told: () => void

  constructor(told: () => void) {
    this.told = told
  }
}

export class NamespaceWatch {
  readonly name: string
  readonly #sights = new Map<string, Sight>()
  readonly #jobs: ListWatch<JobObject>
  readonly #pods: ListWatch<PodObject>

  constructor(name: string, parts: NamespaceParts) {
    this.name = name
    this.#jobs = new ListWatch({ ...parts, path: jobsPath(name), followed: this.#followed(({ job }) => job) })
    this.#pods = new ListWatch({ ...parts, path: corePath(name, "pods"), followed: this.#followed(({ pod }) => pod) })
  }

  async ready(): Promise<void> {
    await Promise.all([this.#jobs.ready(), this.#pods.ready()])
  }

  /** Begin before the Job is made: what is seen before goes unnoticed. `told` is called when something has changed. */
  track(attemptId: string, told: () => void): Sight {
    const sight = new Sight(told)
    this.#sights.set(attemptId, sight)
    return sight
  }

  untrack(attemptId: string, sight: Sight): void {
    if (this.#sights.get(attemptId) === sight) this.#sights.delete(attemptId)
  }

  stop(): void {
    this.#jobs.stop()
    this.#pods.stop()
  }

  #followed<T extends Watched>(part: (sight: Sight) => Latest<T>) {
    const tell = (object: T, news: (latest: Latest<T>) => boolean): void => {
      const sight = this.#sights.get(object.metadata.labels?.[LABELS.attempt] ?? "")
      if (sight !== undefined && news(part(sight))) sight.told()
    }
    return {
      seen: (object: T) => tell(object, (latest) => latest.see(object)),
      gone: (object: T) => tell(object, (latest) => latest.remove(object)),
      listed: (uids: ReadonlySet<string>, version: string) => {
        for (const sight of this.#sights.values()) if (part(sight).list(uids, version)) sight.told()
      },
    }
  }
}

// Changes of workflows and their schedules: deploy, remove, pause, backfill. Called by the API and by `ork serve --dir`. Every change
// wakes the loop and the scheduler, also when the call fails: the commit may have succeeded.

import { backfill, type BackfillRequest } from "./backfill.ts"
import type { DefinitionThread } from "./definition-thread.ts"
import { deploy, nextFiringsOf } from "./deploy.ts"
import type { Evaluator } from "../ports.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { parseDefinition, type ParsedDefinition, type ParseOptions } from "../../definition/parse.ts"
import { type Bundle, bundleKey, storeBundle } from "../../objects/bundles/bundles.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import { NotFound } from "../../store/contract/errors.ts"
import type { Store, StoredVersion } from "../../store/contract/store.ts"

export interface WorkflowServiceOptions {
  store: Pick<Store, "putWorkflow" | "createRuns"> &
    Pick<Catalog, "getWorkflow" | "removeWorkflow" | "setWorkflowPaused" | "currentTime">
  objects: Pick<ObjectStore, "put" | "size">
  evaluator: Pick<Evaluator, "render">
  clock: Clock
  random: Random
  /** Parses definitions in a thread; without it, here. */
  definitions?: Pick<DefinitionThread, "parse">
  wake(): void
}

export class WorkflowService {
  readonly #options: WorkflowServiceOptions

  constructor(options: WorkflowServiceOptions) {
    this.#options = options
  }

  async parse(text: string, options: ParseOptions): Promise<ParsedDefinition> {
    return (await this.#options.definitions?.parse(text, options)) ?? parseDefinition(text, options)
  }

  /**
   * Deploys a definition with the bundle that it names. Stores the bundle a second time after the version: housekeeping may have
   * removed it before a version named it.
   */
  async deploy(
    definition: { workflow: CompiledWorkflow; hash: string; source: string },
    { bundle = null, ifNew = false }: { bundle?: Bundle | null; ifNew?: boolean } = {},
  ): Promise<StoredVersion> {
    const { store, objects, wake } = this.#options
    if (bundle !== null) await storeBundle(objects, bundle)
    const stored = await deploy(store, definition, { ifNew }).finally(wake)
    if (bundle !== null && stored.outcome !== "exists") await storeBundle(objects, bundle)
    return stored
  }

  async putBundle({ hash, bytes }: Bundle): Promise<void> {
    await this.#options.objects.put(bundleKey(hash), bytes)
  }

  /** Removes a workflow and its schedules; its runs stay. */
  async remove(name: string): Promise<void> {
    const { store, wake } = this.#options
    if (!(await store.removeWorkflow(name).finally(wake))) throw new NotFound(`there is no workflow ${name}`)
  }

  /** Pauses or resumes the workflow's schedules. A resumed schedule skips the ticks that it missed. */
  async setPaused(name: string, paused: boolean): Promise<void> {
    const { store, wake } = this.#options
    const workflow = await store.getWorkflow(name)
    const nextAt = workflow === null ? [] : nextFiringsOf(workflow.compiled, await store.currentTime())
    if (workflow === null || !(await store.setWorkflowPaused({ name, paused, nextAt }).finally(wake))) {
      throw new NotFound(`there is no workflow ${name}`)
    }
  }

  /** Creates a run for each past tick of the workflow's schedules in a range. With `plan`, only returns the ticks. */
  backfill(request: BackfillRequest): Promise<{ ticks: string[]; runs: string[] }> {
    return backfill(this.#options, request)
  }
}

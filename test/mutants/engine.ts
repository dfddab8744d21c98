import { type PlantedBug, SIM_ON_SQLITE } from "./planted-bug.ts"

export const ENGINE_BUGS: PlantedBug[] = [
  {
    name: "engine-approves-rejection",
    bug: "A rejection counts as an approval.",
    edits: [
      {
        file: "src/engine/waiting/external-signals.ts",
        find: "approvalResult({ approved, comment, by,",
        replace: "approvalResult({ approved: true, comment, by,",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-does-not-report-end",
    bug: "The end of a run is not reported when the reply to its last commit was lost.",
    edits: [{ file: "src/engine/loop/loop.ts", find: "      this.#parts.recovered()\n", replace: "" }],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-expands-without-limits",
    bug: "Instances of a fan-out have no limits.",
    edits: [
      {
        file: "src/engine/gate/gate.ts",
        find: "const limits = isGroup(node) || lane === workLane(run, node) ? limitsOf(workflow, claim.node, claim.runId) : []",
        replace: "const limits: ReturnType<typeof limitsOf> = []",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-forgets-failed-batch",
    bug: "The changes of a batch that the store did not commit are lost.",
    edits: [
      {
        file: "src/engine/loop/loop.ts",
        find: "this.#inbox.requeue(turn.inboxBatch)",
        replace: "this.#inbox.complete(turn.inboxBatch)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-does-not-reap",
    bug: "Attempts of dead holders are never finished.",
    edits: [
      {
        file: "src/engine/loop/lease-holder.ts",
        find: 'const attempts = await store.reapHolders(REAP_PAGE, { workers: holder.kind === "server" })',
        replace: 'const attempts = (await store.reapHolders(REAP_PAGE, { workers: holder.kind === "server" })).slice(0, 0)',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-keeps-evicted-id",
    bug: "An engine whose lease was lost continues under its old holder id.",
    edits: [
      {
        file: "src/engine/loop/lease-holder.ts",
        find: "    this.#id = this.#newId()\n    await this.#register()\n",
        replace: "",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-launches-lost-claims",
    bug: "Claims that arrive after their lease was lost are launched.",
    edits: [
      {
        file: "src/engine/loop/loop.ts",
        find: "batch.holder === this.#parts.holderId() ? advanced : withoutClaims(advanced)",
        replace: "advanced",
      },
    ],
    foundBy: { tests: ["src/engine/loop/loop.test.ts"] },
  },
  {
    name: "engine-keeps-unknown-claims",
    bug: "Claims whose reply was lost are not released.",
    edits: [{ file: "src/engine/loop/loop.ts", find: "if (!known) this.add(", replace: "if (!known && row < 0) this.add(" }],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-launches-before-commit",
    bug: "A task that the gate admits is launched before that is committed.",
    edits: [
      {
        file: "src/engine/dispatcher.ts",
        find: "for (const change of changes) if (change !== null) submit(change)",
        replace: `for (const change of changes) {
        if (change === null) continue
        submit(change)
        if (change.kind === "enqueue") void this.launch(claim)
      }`,
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-does-not-stop-cancelled",
    bug: "The cancel of a run does not stop running attempts.",
    edits: [
      {
        file: "src/engine/attempts/attempts.ts",
        find: "    this.cancelling = true\n    this.stop(reason)\n",
        replace: "    this.cancelling = true\n",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "engine-loses-chunk",
    bug: "A fan-out that was partly created when its engine crashed counts as complete.",
    edits: [
      {
        file: "src/engine/gate/gate.ts",
        find: 'if (claim.kind !== "task" && claim.childrenCreated > 0 && claim.childrenPending === 0) {',
        replace: 'if (claim.kind !== "task" && claim.childrenCreated > 0) {',
      },
    ],
    foundBy: { sim: ["--seeds", "60", "--from", "40", "--every", "40"] },
  },
  {
    name: "engine-leaves-freed-slots",
    bug: "A turn that began while all slots were in use does not claim again when slots were freed during it.",
    edits: [
      {
        file: "src/engine/loop/loop.ts",
        find: "if (!inboxBatch.exclusive) this.#rowsMayBeLeft = true",
        replace: "if (inboxBatch.nextBatchSize !== null) this.#rowsMayBeLeft = true",
      },
    ],
    foundBy: { tests: ["src/engine/loop/loop.test.ts"] },
  },
]

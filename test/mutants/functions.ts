// Bugs of durable functions.

import { type PlantedBug, SIM_ON_SQLITE } from "./planted-bug.ts"

export const FUNCTION_BUGS: PlantedBug[] = [
  {
    name: "function-wakes-sleeper",
    bug: "Whatever resumes a function ends its sleeps.",
    edits: [
      {
        file: "src/sdk/durable/activation.ts",
        find: "if (until <= this.#ports.clock.now()) return await this.#records.succeed(step, null)",
        replace:
          "if (this.#records.isRecorded(step) || until <= this.#ports.clock.now()) return await this.#records.succeed(step, null)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "function-receives-signal-twice",
    bug: "A function that is resumed receives a signal again.",
    edits: [
      {
        file: "src/sdk/durable/activation.ts",
        find: "if (signal !== null) this.#usedSignals.add(signal)",
        replace: "if (signal === Number.POSITIVE_INFINITY) this.#usedSignals.add(signal)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "function-sees-interruption",
    bug: "The code of a function sees that its process stops, and takes it for a failure of its step.",
    edits: [
      {
        file: "src/sdk/durable/activation.ts",
        find: "if (!this.#isInterrupted(error)) throw error\n        // The function",
        replace: "if (error !== null) throw error\n        // The function",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "function-fails-in-outage",
    bug: "A call that the store does not answer fails a function.",
    edits: [
      {
        file: "src/sdk/durable/until-available.ts",
        find: "if (!(error instanceof StoreUnavailable) || ofCode.has(error)) throw error",
        replace: "if (error !== null || ofCode.has(error)) throw error",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "function-stops-at-own-call",
    bug: "A call of Ork in the code of a step that the store does not answer ends the function without its catch and finally blocks.",
    edits: [
      {
        file: "src/sdk/durable/activation.ts",
        find: "error instanceof Interrupted || isStopped",
        replace: '(error as Error).name === "StoreUnavailable" || isStopped',
      },
    ],
    foundBy: { tests: ["src/sdk/durable/interruption.test.ts"] },
  },
  {
    name: "function-begins-late-transaction",
    bug: "A transaction that waits for others begins although its function was cancelled meanwhile.",
    edits: [
      {
        file: "src/sdk/durable/transactions.ts",
        find: "checkNotCancelled(code.signal)\n        value",
        replace: "value",
      },
    ],
    foundBy: { tests: ["src/sdk/durable/cancel.test.ts"] },
  },
  {
    name: "function-begins-transaction-after-end",
    bug: "A transaction that waits for others begins although its function has ended meanwhile.",
    edits: [
      {
        file: "src/sdk/durable/activation.ts",
        find: "if (this.#hasEnded) throw new LostFunction",
        replace: "if (this.#active < 0) throw new LostFunction",
      },
    ],
    foundBy: { tests: ["src/sdk/durable/interruption.test.ts"] },
  },
  {
    name: "function-cancels-one-branch",
    bug: "A cancel rejects the next step of one of several branches only; the others run theirs.",
    edits: [
      {
        file: "src/sdk/durable/activation.ts",
        find: "    await new Promise((resolve) => setImmediate(resolve))\n",
        replace: "",
      },
    ],
    foundBy: { tests: ["src/sdk/durable/cancel.test.ts"] },
  },
  {
    name: "function-runs-removed-child-again",
    bug: "A durable function whose child was removed before it saw the end of the child runs the child again.",
    edits: [
      {
        file: "src/store/sqlite/jobs/create.ts",
        find: "noteCall(tx, job.callerRow, job.callerStep)",
        replace: "void 0",
      },
    ],
    foundBy: { tests: ["src/sdk/durable/removed-child.test.ts"] },
  },
]

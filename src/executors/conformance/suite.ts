// The conformance suite of executors that run commands on this machine.

import { afterAll, beforeAll, describe } from "vitest"
import type { Capabilities, ExecutorFixture } from "./fixture.ts"
import { outcomeTests } from "./outcomes.ts"
import { secretTests } from "./secrets.ts"
import { stoppingTests } from "./stopping.ts"
import type { HostArguments } from "./stopping.ts"
import { environmentTests } from "./environment.ts"

export const executorSuite = (
  name: string,
  setup: () => Promise<ExecutorFixture>,
  options: { can: Capabilities; host: HostArguments },
): void => {
  describe(`executor: ${name}`, () => {
    let fixture: ExecutorFixture
    beforeAll(async () => {
      fixture = await setup()
    })
    afterAll(() => fixture.cleanup())
    outcomeTests(() => fixture, options.can)
    environmentTests(() => fixture, options.can)
    secretTests(() => fixture)
    stoppingTests(() => fixture, options.can, options.host)
  })
}

import { fakeFixture } from "./testing/fixture.ts"
import { clusterTests } from "./testing/suite.ts"

clusterTests("the fake cluster", fakeFixture, { restricted: true, memory: false, deadline: false })

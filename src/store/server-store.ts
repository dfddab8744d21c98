// All that a server asks of a database: the loop's contract and what people see and change through the API.

import type { Catalog } from "./catalog.ts"
import type { EventLog } from "./event-log.ts"
import type { Insight } from "./insight.ts"
import type { JobStore } from "./job-store.ts"
import type { KeyStore } from "./key-store.ts"
import type { NoticeStore } from "./notice-store.ts"
import type { Picture } from "./picture.ts"
import type { QueueStore } from "./queue-store.ts"
import type { Store } from "./store.ts"

export type ServerStore = Store & Catalog & EventLog & Insight & JobStore & KeyStore & NoticeStore & Picture & QueueStore

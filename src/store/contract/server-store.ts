// Contract of a server with its database: the loop, and the reads and changes of the API.

import type { Catalog } from "./catalog.ts"
import type { EventLog } from "./event-log.ts"
import type { FunctionStore } from "./functions.ts"
import type { StatsStore } from "./stats.ts"
import type { JobStore } from "./jobs.ts"
import type { KeyStore } from "./keys.ts"
import type { NotificationStore } from "./notifications.ts"
import type { RunViewStore } from "./run-view.ts"
import type { QueueStore } from "./queues.ts"
import type { Store } from "./store.ts"
import type { TransferStore } from "./transfer.ts"
import type { PathTriggerStore, TriggerStore } from "./triggers.ts"
import type { TransactionStore } from "./transactions.ts"

export type ServerStore = Store &
  Catalog &
  EventLog &
  FunctionStore &
  StatsStore &
  JobStore &
  KeyStore &
  NotificationStore &
  RunViewStore &
  QueueStore &
  TransferStore &
  TriggerStore &
  PathTriggerStore &
  TransactionStore

// The part of Cloud Logging's published contract that the executor uses (google/logging/v2/logging.proto and log_entry.proto),
// which Google's package for Cloud Run does not contain.

import type protobuf from "protobufjs"

const text = (id: number, more: object = {}) => ({ type: "string", id, ...more })
const time = (id: number) => ({ type: "google.protobuf.Timestamp", id })
const texts = (id: number) => ({ keyType: "string", type: "string", id })
const REQUIRED = { options: { "(google.api.field_behavior)": "REQUIRED" } }

/** The definitions in the format of protobufjs. */
export const LOGGING: protobuf.INamespace = {
  nested: {
    Struct: { fields: {} },
    LoggingServiceV2: {
      methods: {
        ListLogEntries: {
          requestType: "ListLogEntriesRequest",
          responseType: "ListLogEntriesResponse",
          comment: "",
          options: { "(google.api.http).post": "/v2/entries:list" },
          parsedOptions: [{ "(google.api.http)": { post: "/v2/entries:list", body: "*" } }],
        },
      },
    },
    ListLogEntriesRequest: {
      fields: {
        resourceNames: text(8, { rule: "repeated", ...REQUIRED }),
        filter: text(2),
        orderBy: text(3),
        pageSize: { type: "int32", id: 4 },
        pageToken: text(5),
      },
    },
    ListLogEntriesResponse: {
      fields: { entries: { rule: "repeated", type: "LogEntry", id: 1 }, nextPageToken: text(2) },
    },
    LogEntry: {
      fields: {
        logName: text(12, REQUIRED),
        resource: { type: "MonitoredResource", id: 8, ...REQUIRED },
        textPayload: text(3),
        jsonPayload: { type: "Struct", id: 6 },
        timestamp: time(9),
        receiveTimestamp: time(24),
        severity: text(10),
        insertId: text(4),
        labels: texts(11),
      },
    },
    MonitoredResource: { fields: { type: text(1), labels: texts(2) } },
  },
}

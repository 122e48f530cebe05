// The objects of a deployment: each binding, and the class that it names.
export const CLASSES = {
  CELLS: "Cell",
  DIRECTORY: "Directory",
  INBOXES: "Inbox",
  LIMITERS: "Limiter",
  WATCHERS: "Watcher",
  TABLETS: "Tablet",
  KEYSPACES: "Keyspace",
  BOARDS: "Board",
};

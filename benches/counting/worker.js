// The built Worker with counters around its objects: what the platform would bill, counted where it happens.
//
// Invariant: it changes nothing that the built Worker does; every call, statement and answer passes as it is.
// Rows are SQLite's own count of each statement (`rowsWritten`, what the platform bills), and one for each
// alarm that is set. Calls are all requests and alarms of all objects, reports and reads among them.
// All objects share the aggregator's isolate, so its counts are those of the service; an edge asks it.
// Source: developers.cloudflare.com/durable-objects/api/sqlite-storage-api and …/platform/pricing
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import * as built from "./built.js";

const counts = { rows: 0, calls: 0 };
let is_watched = false;

// The prototypes are those of all objects of the isolate: once is enough, twice would count double.
function watch(storage) {
  if (is_watched) return;
  is_watched = true;
  const sql = Object.getPrototypeOf(storage.sql);
  const { exec } = sql;
  sql.exec = function (...statement) {
    const cursor = exec.apply(this, statement);
    counts.rows += cursor.rowsWritten;
    return cursor;
  };
  const alarms = Object.getPrototypeOf(storage);
  const { setAlarm } = alarms;
  alarms.setAlarm = function (...time) {
    counts.rows += 1;
    return setAlarm.apply(this, time);
  };
}

const counted = (Built) =>
  class extends DurableObject {
    constructor(ctx, env) {
      super(ctx, env);
      watch(ctx.storage);
      this.object = new Built(ctx, env);
    }

    fetch(request) {
      counts.calls += 1;
      return this.object.fetch(request);
    }

    alarm() {
      counts.calls += 1;
      return this.object.alarm();
    }
  };

export const Cell = counted(built.Cell);
export const Directory = counted(built.Directory);
export const Tablet = counted(built.Tablet);
export const Board = counted(built.Board);
export const Limiter = counted(built.Limiter);
export const Inbox = counted(built.Inbox);
export const Keyspace = counted(built.Keyspace);

export default class extends WorkerEntrypoint {
  fetch(request) {
    if (new URL(request.url).pathname === "/bench-counts") {
      return this.env.AGGREGATOR?.fetch(request) ?? Response.json(counts);
    }
    return built.default.fetch(request, this.env, this.ctx);
  }
}

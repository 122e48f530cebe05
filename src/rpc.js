// What another Worker calls by a service binding to the entrypoint `Tally`: calls of HTTP as methods.
//
// Invariant: a method makes the request that HTTP would, and gives it to the same handler. So rights, bodies and
// refusals are those of HTTP. A method throws a TallyError and nothing else.
// Life: arguments → request → the handler → what the answer says.
import { RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import { TallyError, Transport, jsonOf, path, refusal } from "../package/client/transport.ts";
import { verdictOf } from "../package/client/verdict.ts";

// By method: how HTTP calls it. Parts of the path are the first arguments; the last one, an object, is the body of a
// write, and the query of a read.
const CALLS = {
  increment: ["POST", "/counters/{id}/increment"],
  decrement: ["POST", "/counters/{id}/decrement"],
  get: ["GET", "/counters/{id}"],
  top: ["GET", "/top"],
  limit: ["POST", "/limits/{policy}/{key}"],
  hold: ["POST", "/limits/{policy}/{key}/holds"],
  settle: ["POST", "/limits/{policy}/{key}/holds/{hold}/settle"],
  release: ["DELETE", "/limits/{policy}/{key}/holds/{hold}"],
};
// The same of a board, whose name is the first part.
const BOARD_CALLS = {
  write: ["POST", "/boards/{board}/members/{member}"],
  get: ["GET", "/boards/{board}/members/{member}"],
  members: ["GET", "/boards/{board}/members"],
};
// A refusal of these is an answer: `allowed` is false.
const JUDGED = ["limit", "hold"];

// A deployment without keys answers this machine alone, which keeps pages of other sites out. A binding is no page.
const ADDRESS = "https://localhost";

const invalid = (detail) => new TallyError(400, "invalid-call", detail);

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}

// What JSON would leave out or change without a word, such as NaN or a Map, changes what a call means.
function ofJson(name, value) {
  const isKnown =
    value === null ||
    ["string", "boolean", "undefined"].includes(typeof value) ||
    (typeof value === "number" ? Number.isFinite(value) : typeof value === "object" && isPlain(value));
  if (!isKnown) throw invalid(`\`${name}\` is ${String(value)}: send what JSON can say`);
  return value;
}

// The text of a header. `null` is none, as `headers.get` returns it: the text "null" would be one key for all writes.
function textOf(name, value) {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalid(`\`${name}\` is a ${typeof value}: send a text`);
  return value;
}

// A query has texts, numbers and truth values: an object would become the text "[object Object]".
function checkQuery(fields) {
  for (const [name, value] of Object.entries(fields)) {
    if ([value].flat().some((one) => one !== null && ["object", "function", "symbol"].includes(typeof one))) {
      throw invalid(`\`${name}\` is an object: send a text or a number`);
    }
  }
}

// How many parts of a path are arguments.
const partsIn = (template) => template.split("{").length - 1;

// The parts of the path, and the options.
function argumentsOf(name, template, given) {
  const count = partsIn(template);
  const [parts, [options = {}, ...more]] = [given.slice(0, count), given.slice(count)];
  if (more.length > 0) throw invalid(`${name}() takes ${count + 1} arguments at most, and got ${given.length}`);
  if (typeof options !== "object" || options === null || !isPlain(options) || Array.isArray(options)) {
    throw invalid(`the last argument of ${name}() is ${String(options)}: send an object, such as { delta: 1 }`);
  }
  return [parts, options];
}

// Sends the request of a call, and resolves to the answer and the fields of the call.
async function send(handle, { env, ctx }, [method, template], parts, options) {
  const { key = ctx.props?.key, cf, idempotencyKey, ifMatch, numbers, ...fields } = options;
  const isWrite = method === "POST";
  const headers = {};
  for (const [header, name, value] of [
    ["idempotency-key", "idempotencyKey", idempotencyKey], ["if-match", "ifMatch", ifMatch],
  ]) {
    const text = textOf(name, value);
    if (text !== undefined) headers[header] = text;
  }
  if (cf !== undefined && cf !== null && (typeof cf !== "object" || !isPlain(cf) || Array.isArray(cf))) {
    throw invalid("`cf` is no object: send the request's own, `request.cf`");
  }
  if (!isWrite) checkQuery(fields);
  const call = {
    query: { ...(isWrite ? {} : fields), numbers },
    body: isWrite ? JSON.stringify(fields, ofJson) : undefined,
  };
  const fetch = (url, init) => {
    const request = new Request(url, init);
    return (async () => handle(request, env, ctx))().catch((error) => {
      throw new TallyError(0, "no-answer", `Tally does not answer: ${error?.message ?? error}`);
    });
  };
  const transport = new Transport({ url: ADDRESS, key, request: { cf: cf ?? undefined }, fetch });
  const once = transport.prepared(method, path(template, ...parts), call, headers);
  return { answer: await once(undefined), fields };
}

// Of an error, callers with a compatibility date before 2026-04-21 get only the message. So the code is in it, too.
function thrown(error, name) {
  const one = error instanceof TallyError ? error : invalid(`${name}(): ${error?.message ?? error}`);
  one.message = `${one.code}: ${one.message}`;
  return one;
}

async function call(handle, context, name, [method, template], given) {
  try {
    if (context.env.TALLY_ROLE === "aggregator") {
      throw new TallyError(404, "not-tally", "this Worker is the aggregator of Tally: bind its edge, tally-edge");
    }
    const [parts, options] = argumentsOf(name, template, given);
    const { answer, fields } = await send(handle, context, [method, template], parts, options);
    if (JUDGED.includes(name) && (answer.ok || answer.status === 429)) {
      return await verdictOf(parts[0], fields, answer);
    }
    if (!answer.ok) throw await refusal(answer);
    return await jsonOf(answer);
  } catch (error) {
    throw thrown(error, name);
  }
}

class Board extends RpcTarget {
  #call;

  constructor(one) {
    super();
    this.#call = one;
  }

  static {
    for (const [name, how] of Object.entries(BOARD_CALLS)) {
      this.prototype[name] = function (...given) {
        return this.#call(name, how, given);
      };
    }
  }
}

/** Returns the class of the entrypoint. `handle(request, env, ctx)`: what answers requests of HTTP. */
export function entrypoint(handle) {
  return class Tally extends WorkerEntrypoint {
    // A request is sent on as it is: its sender's rights are those of the request alone, never those of the binding.
    fetch(request) {
      return handle(request, this.env, this.ctx);
    }

    board(board, shared = {}) {
      const context = { env: this.env, ctx: this.ctx };
      return new Board((name, how, given) => {
        const count = partsIn(how[1]) - 1;
        const [options = {}] = given.slice(count);
        const all = isPlain(Object(options)) ? { ...shared, ...options } : options;
        return call(handle, context, name, how, [board, ...given.slice(0, count), all, ...given.slice(count + 1)]);
      });
    }

    static {
      for (const [name, how] of Object.entries(CALLS)) {
        this.prototype[name] = function (...given) {
          return call(handle, { env: this.env, ctx: this.ctx }, name, how, given);
        };
      }
    }
  };
}

// A call of a tool: the request that it makes, and what its answer says to the agent.
//
// Invariant: every refusal and every failure is a result with `isError`, whose text is JSON with a `code`. An agent can
// act on it.
import { TallyError } from "../../client/index.ts";
import { notTally, path } from "../../client/transport.ts";

/** The most bytes of an answer: an agent reads all of it. */
export const ANSWER_BYTES_MAX = 256 * 1024;

/** How long a call may take, all its tries together. */
export const CALL_MS_MAX = 30_000;

/** The most calls at a time, of all agents of the command: each may have an answer of `ANSWER_BYTES_MAX`. */
export const CALLS_MAX = 64;

const result = (text) => ({ content: [{ type: "text", text }] });

function refused({ status, code, message, problem }) {
  // What answers instead of Tally has no codes, or other ones.
  const isOwn = typeof problem?.code === "string";
  const shown = isOwn ? problem : { status, code: typeof code === "string" ? code : "unknown", detail: message };
  return { ...result(JSON.stringify(shown)), isError: true };
}

const kindOf = (value) => (value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`);

// Arguments as they are sent. A value of another kind would become a text that nobody gave: an empty array an empty
// prefix, which means all.
function queryOf({ query, tool }, given) {
  const entries = query.filter((name) => given[name] !== undefined).map((name) => {
    if (["string", "number", "boolean"].includes(typeof given[name])) return [name, given[name]];
    const detail = `${tool.name}: \`${name}\` is ${kindOf(given[name])}: send a text or a number`;
    throw new TallyError(400, "invalid-query", detail);
  });
  return Object.fromEntries(entries);
}

// A whole number of more than 53 bits has lost digits on its way here, and would count another amount.
const hasLostDigits = (value) =>
  typeof value === "object" && value !== null
    ? Object.values(value).some(hasLostDigits)
    : Number.isInteger(value) && !Number.isSafeInteger(value);

function bodyOf({ tool }, { body }) {
  if (body === undefined) return body;
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new TallyError(400, "invalid-body", `${tool.name}: \`body\` is ${kindOf(body)}: send an object`);
  }
  if (!hasLostDigits(body)) return body;
  const detail = `${tool.name}: \`body\` has a whole number beyond 2^53 − 1, which loses digits: send smaller ones`;
  throw new TallyError(400, "invalid-body", detail);
}

// The text of an answer, which comes in pieces.
async function textOf(answer) {
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for await (const piece of answer.body ?? []) {
    bytes += piece.length;
    if (bytes > ANSWER_BYTES_MAX) {
      const detail = `the answer has more than ${ANSWER_BYTES_MAX} bytes: ask for less, by limit, a shorter time, a longer step or a prefix`;
      throw new TallyError(413, "answer-too-large", detail);
    }
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

async function answerOf(client, one, given, signal) {
  const { template, method, path: parts, isKeyed, tool } = one;
  const names = Object.keys(tool.inputSchema.properties);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const detail = `${tool.name} has no argument ${JSON.stringify(unknown)}: it has ${names.join(", ") || "none"}`;
    throw new TallyError(400, "unknown-field", detail);
  }
  const answer = await client.answer(method, path(template, ...parts.map((name) => given[name])), {
    query: queryOf(one, given),
    body: bodyOf(one, given),
    // A write without a key of its own, such as of a policy, has the same effect each time.
    isWrite: isKeyed,
    isSafe: method !== "POST",
    deadline_ms: CALL_MS_MAX,
    signal,
  });
  const text = await textOf(answer);
  if (text === "") return JSON.stringify({ status: answer.status });
  try {
    JSON.parse(text);
  } catch (cause) {
    throw notTally(answer.status, "JSON", text, cause);
  }
  // The text itself: its numbers may be too large for those of JavaScript.
  return text;
}

/** Calls a tool for an agent, and resolves to its result. Never rejects. */
export async function called(client, one, given = {}, signal = undefined) {
  const late = AbortSignal.timeout(CALL_MS_MAX);
  try {
    return result(await answerOf(client, one, given, signal === undefined ? late : AbortSignal.any([signal, late])));
  } catch (error) {
    if (error instanceof TallyError) return refused(error);
    return refused({ status: 0, code: "no-answer", message: `${error?.message ?? error}` });
  }
}

/** Returns `called` for a client, as often at a time as is bounded. */
export function callerOf(client) {
  let underway = 0;
  return async (one, given, signal) => {
    if (underway >= CALLS_MAX) {
      const message = `${CALLS_MAX} calls are under way, the most at a time: call again once one is answered`;
      return refused({ status: 0, code: "too-many-calls", message });
    }
    underway += 1;
    try {
      return await called(client, one, given, signal);
    } finally {
      underway -= 1;
    }
  };
}

// A call of a tool: the request that it makes, and what its answer says to the agent.
//
// Invariant: every refusal and every failure is a result with `isError`, whose text is JSON with a `code`. An agent can
// act on it.
import { TallyError } from "../../client/index.ts";
import { path } from "../../client/transport.ts";

/** The most bytes of an answer: an agent reads all of it. */
export const ANSWER_BYTES_MAX = 256 * 1024;

/** How long a call may take, all its tries together. */
export const CALL_MS_MAX = 30_000;

const result = (text) => ({ content: [{ type: "text", text }] });

function refused({ status, code, message, problem }) {
  return { ...result(JSON.stringify(problem ?? { status, code, detail: message })), isError: true };
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

async function answerOf(client, { template, method, path: parts, query, isKeyed, tool }, given, signal) {
  const names = Object.keys(tool.inputSchema.properties);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const detail = `${tool.name} has no argument ${JSON.stringify(unknown)}: it has ${names.join(", ") || "none"}`;
    throw new TallyError(400, "unknown-field", detail);
  }
  const answer = await client.answer(method, path(template, ...parts.map((name) => given[name])), {
    query: Object.fromEntries(query.map((name) => [name, given[name]])),
    body: given.body,
    // A write without a key of its own, such as of a policy, has the same effect each time.
    isWrite: isKeyed,
    isSafe: method !== "POST",
    deadline_ms: CALL_MS_MAX,
    signal,
  });
  const text = await textOf(answer);
  return text === "" ? JSON.stringify({ status: answer.status }) : text;
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

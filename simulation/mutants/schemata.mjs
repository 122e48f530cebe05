// Writes many mutations into one source, of which a process chooses one when it starts (mutant schemata: R. Untch,
// A. Offutt, M. Harrold, "Mutation Analysis Using Mutant Schemata", ISSTA 1993): a body that is broken in two ways is
// written as `{ match mutant() { 3 => { … } 7 => { … } _ => { … } } }`. So all of them cost one build.
//
// Invariants: without a number each body does what it did before; each mutation is either in a source or in `apart`,
// with the reason.
import { codeOnly } from "../../scripts/tidy.mjs";

/** The environment variable with the number of the mutation of a process. */
export const CHOSEN = "MUTANT";

// Appended to the root of each crate. Zero is no mutation.
const SWITCH = `
extern crate std;
/// Returns the number of the mutation that this process runs.
pub(crate) fn mutant() -> usize {
    static CHOSEN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("${CHOSEN}").ok().and_then(|text| text.parse().ok()).unwrap_or(0))
}
`;

/** Returns the root of a crate with the switch. */
export const rootWithSwitch = (source) => source + SWITCH;

const OPENING = "([{";
const CLOSING = ")]}";

/** Returns where the bracket that opens at `open` is closed. Errors: nowhere. */
function closeOf(code, open) {
  for (let [at, depth] = [open, 0]; at < code.length; at += 1) {
    if (OPENING.includes(code[at])) depth += 1;
    if (CLOSING.includes(code[at])) depth -= 1;
    if (depth === 0) return at;
  }
  throw new Error("a bracket is not closed");
}

/** Returns the function whose signature begins at `start`: undefined if it has no body. */
function functionAt(code, start) {
  for (let at = start; at < code.length; at += 1) {
    if (code[at] === ";") return undefined;
    if (code[at] === "{") {
      const signature = code.slice(start, at);
      const isConst = /\bconst\s+(?:unsafe\s+)?$/.test(code.slice(0, start));
      return { open: at, close: closeOf(code, at), isConst, isOpaque: /->[\s\S]*\bimpl\b/.test(signature) };
    }
    if (OPENING.includes(code[at])) at = closeOf(code, at);
  }
  return undefined;
}

/** Returns the innermost block within a function that has a type of its own, and holds the range. */
function typedBlock(code, { open, close }, [from, to]) {
  const opens = [...code.slice(open, close).matchAll(/(?:\basync|\bmove|=>|\belse|\|)\s*\{/g)]
    .map((found) => open + found.index + found[0].length - 1);
  return opens.map((one) => ({ open: one, close: closeOf(code, one) }))
    .filter((one) => one.open < from && to <= one.close).at(-1);
}

/** Returns the part in which a text and what stands in its place differ: what to write instead of which range. */
function difference(source, text, instead) {
  const start = source.indexOf(text);
  let [head, tail] = [0, 0];
  const most = Math.min(text.length, instead.length);
  while (head < most && text[head] === instead[head]) head += 1;
  while (tail < most - head && text.at(-1 - tail) === instead.at(-1 - tail)) tail += 1;
  return {
    range: [start + head, start + text.length - tail],
    instead: instead.slice(head, instead.length - tail),
  };
}

/** Returns the block that is to be written once for a mutation, or why there is none. */
function siteOf(code, range) {
  const functions = [...code.matchAll(/\bfn\s+\w+/g)].map(({ index }) => functionAt(code, index));
  const around = functions.filter((one) => one !== undefined && one.open < range[0] && range[1] <= one.close).at(-1);
  if (around === undefined) return { why: "it is in no function" };
  if (around.isConst) return { why: "its function is const" };
  if (!around.isOpaque) return around;
  return typedBlock(code, around, range) ?? { why: "its function returns an opaque type" };
}

const lines = (text) => text.split("\n").length - 1;

/** Writes the blocks of one site as one; `line` is that of its first character. */
function written({ open, close, mutations }, source, line) {
  const arms = [];
  let text = "{ match crate::mutant() {";
  for (const { number, range, instead } of mutations) {
    const from = line + lines(text);
    text += `\n${number} => ${source.slice(open, range[0])}${instead}${source.slice(range[1], close + 1)}`;
    arms.push({ number, lines: [from + 1, line + lines(text)] });
  }
  const from = line + lines(text);
  text += `\n_ => ${source.slice(open, close + 1)}`;
  for (const { number } of mutations) arms.push({ number, lines: [from + 1, line + lines(text)] });
  return { text: `${text}\n} }`, arms };
}

/** Returns sites none of which is within another. */
function disjoint(sites) {
  const outermost = [];
  for (const site of sites.toSorted((one, other) => one.open - other.open || other.close - one.close)) {
    const around = outermost.at(-1);
    if (around !== undefined && site.open < around.close) around.mutations.push(...site.mutations);
    else outermost.push(site);
  }
  return outermost;
}

/**
 * Returns a source with mutations in it, the lines of each (`arms`; what is not mutated belongs to all of its block),
 * and those that cannot be in it (`apart`).
 * @param mutations { number, text, instead } each
 */
export function schemata(source, mutations) {
  const code = codeOnly(source);
  const apart = [];
  const sites = [];
  for (const { number, text, instead } of mutations) {
    const mutation = { number, ...difference(source, text, instead) };
    const site = siteOf(code, mutation.range);
    if (site.why !== undefined) apart.push({ number, why: site.why });
    else sites.push({ ...site, mutations: [mutation] });
  }
  let [result, at] = ["", 0];
  const arms = [];
  for (const site of disjoint(sites)) {
    result += source.slice(at, site.open);
    const one = written(site, source, lines(result) + 1);
    result += one.text;
    arms.push(...one.arms);
    at = site.close + 1;
  }
  return { source: result + source.slice(at), arms, apart };
}

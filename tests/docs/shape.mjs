// Compares what a command printed with the answer that a page shows, in shape.
//
// Same: the fields of JSON and the types of their values, texts and lines but for digits. Not compared: numbers, true
// and false, order of fields. A page writes `…` for what it leaves out: at the end of an object, a list or a line, or
// as a line of its own for any number of lines.

const ELLIPSIS = "…";
// Fields whose text differs from run to run.
const OPAQUE = ["version", "seen"];

/** Returns the differences as sentences; none where `actual` has the shape of `expected`. */
export function differences(expected, actual) {
  const [wanted, found] = [pieces(expected), pieces(actual)];
  let at = 0;
  for (let index = 0; index < wanted.length; index += 1) {
    const piece = wanted[index];
    if (piece.line === ELLIPSIS) {
      const next = wanted[index + 1];
      if (next === undefined) return [];
      while (at < found.length && compared(next, found[at]).length > 0) at += 1;
      continue;
    }
    if (at >= found.length) return [`nothing was printed where the page shows ${shown(piece)}`];
    const wrong = compared(piece, found[at]);
    if (wrong.length > 0) return wrong;
    at += 1;
  }
  return at < found.length ? [`${shown(found[at])} was printed and is not on the page`] : [];
}

const shown = (piece) => (piece.line === undefined ? JSON.stringify(piece.value) : JSON.stringify(piece.line));

// Returns the JSON values and the lines that a text consists of, in order: `{ value }` or `{ line }`.
function pieces(text) {
  const found = [];
  let at = 0;
  while (at < text.length) {
    if (/\s/.test(text[at])) {
      at += 1;
      continue;
    }
    const end = "{[".includes(text[at]) ? endOfValue(text, at) : undefined;
    const value = end === undefined ? undefined : parsed(text.slice(at, end));
    if (value !== undefined) {
      found.push({ value });
      at = end;
      continue;
    }
    const stop = text.indexOf("\n", at) < 0 ? text.length : text.indexOf("\n", at);
    found.push({ line: text.slice(at, stop).trim() });
    at = stop;
  }
  return found;
}

// Returns where the object or list that begins at `from` ends, undefined where it does not.
function endOfValue(text, from) {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '"') {
      for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
    } else if ("{[".includes(text[at])) depth += 1;
    else if ("}]".includes(text[at])) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return undefined;
}

function parsed(text) {
  const whole = text
    .replace(/([{[,])?\s*…\s*}/g, (_, before) => `${before === "{" ? "{" : ","}"${ELLIPSIS}":0}`)
    .replace(/([{[,])?\s*…\s*\]/g, (_, before) => `${before === "[" ? "[" : ","}"${ELLIPSIS}"]`);
  try {
    return JSON.parse(whole);
  } catch {
    return undefined;
  }
}

function compared(wanted, found) {
  if (wanted.line === undefined) {
    return found.line === undefined
      ? values(wanted.value, found.value, "the answer")
      : [`the page shows JSON, ${shown(found)} was printed`];
  }
  if (found.line === undefined) return [`the page shows ${shown(wanted)}, ${shown(found)} was printed`];
  // A line of a stream: a name, and JSON.
  const [before, after] = [wanted.line, found.line].map((line) => line.match(/^(\w+: )({.*})$/));
  if (before && after && before[1] === after[1] && parsed(before[2]) && parsed(after[2])) {
    return values(parsed(before[2]), parsed(after[2]), "the answer");
  }
  return texts(wanted.line, found.line, "the line");
}

const DIGITS = /[0-9a-f]{16,}|\d+(?:[.,]\d+)*/g;

function texts(wanted, found, where) {
  const [plain, other] = [wanted, found].map((text) => text.replace(DIGITS, "#"));
  const isSame = plain.endsWith(ELLIPSIS) ? other.startsWith(plain.slice(0, -1).trimEnd()) : plain === other;
  return isSame ? [] : [`${where}: the page shows ${JSON.stringify(wanted)}, ${JSON.stringify(found)} was printed`];
}

const kindOf = (value) => (value === null ? "null" : Array.isArray(value) ? "a list" : typeof value);

function values(wanted, found, where) {
  const [kind, other] = [kindOf(wanted), kindOf(found)];
  if (kind !== other) return [`${where}: the page shows ${kind} (${JSON.stringify(wanted)}), ${other} (${JSON.stringify(found)}) was printed`];
  if (kind === "string") return OPAQUE.includes(where.split(".").at(-1)) ? [] : texts(wanted, found, where);
  if (kind === "a list") return lists(wanted, found, where);
  if (kind !== "object") return [];
  const names = Object.keys(wanted).filter((name) => name !== ELLIPSIS);
  const extra = ELLIPSIS in wanted ? [] : Object.keys(found).filter((name) => !(name in wanted));
  return [
    ...extra.map((name) => `${where}.${name} was printed and is not on the page`),
    ...names.flatMap((name) =>
      name in found
        ? values(wanted[name], found[name], `${where}.${name}`)
        : [`${where}.${name} is on the page and was not printed`],
    ),
  ];
}

function lists(wanted, found, where) {
  const isOpen = wanted.at(-1) === ELLIPSIS;
  const items = isOpen ? wanted.slice(0, -1) : wanted;
  if (isOpen ? found.length < items.length : found.length !== items.length) {
    return [`${where}: the page shows ${items.length} entries, ${found.length} were printed`];
  }
  return items.flatMap((item, index) => values(item, found[index], `${where}.${index}`));
}

// Checks the sentences of the documents: how long they are, words that mark a sentence to rewrite, passive voice, and
// headings; of the description of the API the words alone.
//
//   node scripts/prose.mjs            prints each page's findings above what scripts/prose-allowed.json allows
//   node scripts/prose.mjs --all PAGE prints every finding of a page
//   node scripts/prose.mjs --shrink   lowers what is allowed to what is there now, and never raises it
//
// Invariant: the allowances only shrink. A page that is not listed may have no finding but a few passives.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import writeGood from "write-good";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const ALLOWED = "scripts/prose-allowed.json";
const SHRINK = "node scripts/prose.mjs --shrink";
const TOP = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md"];

/** The most words of a sentence. */
export const WORDS_MAX = 25;

/** The most words of a heading: people search for a few. */
export const HEADING_WORDS_MAX = 9;

/** Passive sentences of a page that need no entry, in a hundred. */
const PASSIVE_PERCENT_MAX = 15;

// Words that mark a sentence to rewrite, each with a better one.
const MARKED = [
  [/\b(?:told|tells|telling)\b/giu, "say, report, return"],
  [/\bheard\b/giu, "receive"],
  [/\blent\b/giu, "lease"],
  [/\bso many\b/giu, "a number"],
  [/\bof (?:then|before)\b/giu, "name the time"],
  [/\b(?:that of|those of|the one that|what it has)\b/giu, "repeat the noun"],
  [/\bgoes on\b/giu, "continues"],
  [/\b(?:by and by|comes back with its word|at most once it is)\b/giu, "say it plainly"],
  [/\bin no row\b/giu, "is missing from the rows"],
  [/\bbesides?\b/giu, "next to, also"],
  [/\bor else\b|, else\b/giu, "otherwise"],
];

// What write-good looks for here: the rest of its advice is about taste.
const PASSIVE_ALONE = {
  passive: true, illusion: false, so: false, thereIs: false, weasel: false, adverb: false, tooWordy: false,
  cliches: false, eprime: false,
};

const KINDS = ["long", "marked", "passive", "heading"];

// The description of the API: its texts are checked for marked words alone.
const API = "crates/tally-api/openapi.json";
const kindsOf = (path) => (path === API ? ["marked"] : KINDS);
const sentencesOf = new Intl.Segmenter("en", { granularity: "sentence" });
const words = (text) => text.split(/\s+/u).filter((word) => /[\p{L}\p{N}]/u.test(word));

// What stands for a piece of code in a sentence: one word, which no list has.
const CODE = "Xcode";

// The text of a line without marks: code as one word, links as their text.
const plain = (text) =>
  text
    .replace(/`[^`]*`/gu, CODE)
    .replace(/!?\[([^\]]*)\]\([^)]*\)/gu, "$1")
    .replace(/<[^>]*>/gu, "")
    .replace(/\*\*|__/gu, "");

/** Returns the parts of a page that people read: `{ text, line, isHeading }`, a paragraph, an item or a cell each. */
export function parts(page) {
  const found = [];
  let paragraph;
  let isCode = false;
  const end = () => {
    if (paragraph !== undefined) found.push(paragraph);
    paragraph = undefined;
  };
  page.split("\n").forEach((text, index) => {
    const line = index + 1;
    if (/^\s*```/u.test(text)) {
      end();
      isCode = !isCode;
      return;
    }
    if (isCode) return;
    if (text.trim() === "" || /^<!--.*-->$/u.test(text.trim())) return end();
    const heading = text.match(/^#{1,6} (.*)$/u);
    if (heading) {
      end();
      found.push({ text: plain(heading[1]), line, isHeading: true });
      return;
    }
    if (/^\|.*\|\s*$/u.test(text)) {
      end();
      if (/^[|\s:-]+$/u.test(text)) return;
      for (const cell of plain(text).trim().slice(1, -1).split(/(?<!\\)\|/u)) {
        if (cell.trim() !== "") found.push({ text: cell.trim(), line, isHeading: false });
      }
      return;
    }
    if (/^\s*(?:[-*]|\d+[.)]) /u.test(text)) end();
    const body = plain(text.replace(/^\s*(?:[-*]|\d+[.)]) /u, "")).trim();
    if (paragraph === undefined) paragraph = { text: body, line, isHeading: false };
    else paragraph.text += ` ${body}`;
  });
  end();
  return found;
}

/** Returns what is to be rewritten in a page: `{ kind, line, text, why }`. */
export function findings(page) {
  return parts(page).flatMap(({ text, line, isHeading }) => {
    if (isHeading) {
      const isFit = words(text).length <= HEADING_WORDS_MAX && !/[.:;,]$/u.test(text);
      const why = `at most ${HEADING_WORDS_MAX} words, no point at its end`;
      return isFit ? [] : [{ kind: "heading", line, text, why }];
    }
    const sentences = [...sentencesOf.segment(text)].map(({ segment }) => segment.trim()).filter((one) => one !== "");
    return sentences.flatMap((sentence) => {
      const of = (kind, why) => ({ kind, line, text: sentence, why });
      const count = words(sentence).length;
      const long = count > WORDS_MAX ? [of("long", `${count} words, at most ${WORDS_MAX}`)] : [];
      const marked = MARKED.flatMap(([expression, better]) =>
        [...sentence.matchAll(expression)].map(([word]) => of("marked", `"${word}": ${better}`)),
      );
      const passive = writeGood(sentence, PASSIVE_ALONE).slice(0, 1).map(({ reason }) => of("passive", reason));
      return [...long, ...marked, ...passive];
    });
  });
}

/** Returns how many findings of each kind a page may have without an entry. */
function freely(page) {
  const count = parts(page).filter(({ isHeading }) => !isHeading).reduce(
    (sum, { text }) => sum + [...sentencesOf.segment(text)].length, 0,
  );
  return { long: 0, marked: 0, heading: 0, passive: Math.floor((count * PASSIVE_PERCENT_MAX) / 100) };
}

const counted = (found) =>
  Object.fromEntries(KINDS.map((kind) => [kind, found.filter((one) => one.kind === kind).length]));

/** Returns what is wrong: findings above what is allowed, and allowances that are larger than needed. */
export function wrongs(pages, allowed) {
  return Object.entries(pages).flatMap(([path, page]) => {
    const found = findings(page);
    const counts = counted(found);
    const most = { ...freely(page), ...allowed[path] };
    const over = kindsOf(path).filter((kind) => counts[kind] > most[kind]).flatMap((kind) => [
      `${path}: ${counts[kind]} findings of the kind ${kind}, ${most[kind]} are allowed`,
      ...found.filter((one) => one.kind === kind).map(({ line, text, why }) => `  ${path}:${line} (${why}) ${text}`),
    ]);
    const loose = Object.entries(allowed[path] ?? {})
      .filter(([kind, most]) => counts[kind] < most)
      .map(([kind, most]) => `${path}: ${kind} is ${counts[kind]}, ${most} are allowed: run ${SHRINK}`);
    return [...over, ...loose];
  }).concat(
    Object.keys(allowed)
      .filter((path) => !(path in pages))
      .map((path) => `${ALLOWED} names ${path}, which is not there`),
  );
}

// The texts of the description of the API, a paragraph each.
function apiTexts(text) {
  const texts = [];
  JSON.parse(text, (key, value) => {
    if (["description", "summary"].includes(key) && typeof value === "string") texts.push(value);
    return value;
  });
  return texts.join("\n\n");
}

/** Returns the pages that are checked, by their paths. root: the project's folder. */
export function pagesOf(root = ROOT) {
  const below = readdirSync(join(root, "docs"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".md"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
  const text = (path) => readFileSync(join(root, path), "utf8");
  const pages = [...TOP, ...below.sort()].map((path) => [path, text(path)]);
  return { ...Object.fromEntries(pages), [API]: apiTexts(text(API)) };
}

/** Returns the allowances. root: the project's folder. */
export const allowedOf = (root = ROOT) => JSON.parse(readFileSync(join(root, ALLOWED), "utf8"));

// What is needed of what is allowed: never more than before.
function shrunk(pages, allowed) {
  const needed = Object.entries(allowed).flatMap(([path, kinds]) => {
    if (!(path in pages)) return [];
    const [counts, free] = [counted(findings(pages[path])), freely(pages[path])];
    const entries = Object.entries(kinds)
      .map(([kind, most]) => [kind, Math.min(most, counts[kind])])
      .filter(([kind, most]) => most > free[kind]);
    return entries.length === 0 ? [] : [[path, Object.fromEntries(entries)]];
  });
  return Object.fromEntries(needed);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const pages = pagesOf();
  const [how, path] = process.argv.slice(2);
  if (how === "--all") {
    for (const { kind, line, text, why } of findings(pages[path])) {
      console.log(`${path}:${line} ${kind} (${why}) ${text}`);
    }
  } else if (how === "--shrink") {
    writeFileSync(join(ROOT, ALLOWED), `${JSON.stringify(shrunk(pages, allowedOf()), null, 1)}\n`);
  } else {
    const wrong = wrongs(pages, allowedOf());
    if (wrong.length > 0) console.log(wrong.join("\n"));
    process.exitCode = wrong.length === 0 ? 0 : 1;
  }
}

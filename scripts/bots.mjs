// Writes the list of programs among user agents, crates/tally-logs/src/bots/list.rs, from a release of npm's `isbot`:
//   node_modules/.bin/node scripts/bots.mjs 5.2.3
//
// Invariant: no expression is dropped in silence. One that is a word (with its anchors, its alternatives and what
// must not stand around it) becomes bytes of the list. Any other must be named in SHAPES, as a function of
// crates/tally-logs/src/bots/shapes.rs, or in LEFT, with the reason; the script fails otherwise. The list is in the
// public domain (Unlicense).
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const LIST = fileURLToPath(new URL("../crates/tally-logs/src/bots/list.rs", import.meta.url));

// What is no word: functions of crates/tally-logs/src/bots/shapes.rs.
const SHAPES = {
  ";\\s\\w+;$": "ends_in_a_word_between_semicolons",
  "@[a-z][\\w-]+\\.": "has_a_mail_address",
  "\\b\\w+/1\\.0;": "has_a_first_version",
  "^[\\w \\.\\-\\(?:\\):%]+(?:/v?\\d+(?:\\.\\d+)?(?:\\.\\d{1,10})*?)?(?:,|$)": "is_one_product",
  "^[\\w\\-]+/[\\w]+$": "is_one_product",
  "^[^ ]{50,}$": "is_one_long_word",
  "^\\d+\\b": "begins_with_a_number",
  "^\\w*search\\b": "begins_with_a_search",
  "^\\w+/[\\w\\(\\)]*$": "is_one_product",
  "^\\w+/\\d\\.\\d\\s\\([\\w@]+\\)$": "is_a_product_and_a_word",
  "^mozilla/\\d\\.\\d\\s[\\w\\.-]+$": "is_mozilla_and_a_word",
  "^mozilla/\\d\\.\\d\\s\\((?:compatible;)?(?:\\s?[\\w\\d-.]+[\\s/]\\d+\\.\\d+)?\\)$": "is_mozilla_and_a_comment",
};
// What would take people for programs.
const LEFT = {
  "sogou": "a browser of phones and desktops; its crawler says spider",
  "java(?!;)": "phones before smartphones say JavaPlatform; programs say java/ or Java at the beginning",
  "firephp": "an addition to Firefox",
  "chromeframe": "an addition to Internet Explorer",
  "bluecoat drtr": "a proxy, behind which people sit",
  "(?<!cam)scan": "devices with a scanner; programs that scan say more",
  "proxy": "gateways of phones",
  "radar": "apps of weather and flights",
};
// What the list lacks.
const ADDED = [
  // Health checks and monitors.
  "\\bkube-probe", "elb-healthchecker", "\\bgooglehc", "\\bprometheus/", "envoy/hc", "health[ _-]?check", "datadog",
  "uptime", "\\bblackbox", "haproxy", "monitoring", "site24x7", "\\bzabbix",
  // Libraries and tools that say more than their own name.
  "java/", "^java", "jakarta commons", "libwww", "okhttp/", "aiohttp", "axios/", "undici",
  "gtmetrix", "\\bnmap\\b", "zgrab", "masscan",
  "nikto", "sqlmap", "nuclei", "scanner/", "scanning", "slurp",
];
// Phones, apps, televisions and consoles whose names hold a word of the list.
const PEOPLE = [
  "cubot", "google tv", "googletv", "google chrome", "newsarticle/", "newsapp", "newsbreak", "appletv", "sonyericsson",
  "wii ",
];

/** Returns the alternatives of an expression without quantifiers: `a[bc](?:d|e)?` is `abd`, `abe`, `ab`, `acd`, … */
function alternatives(expression) {
  const optional = expression.match(/^(.*?)(\[[^\]]+\]|\(\?:[^()]*\)|\\?[^(])\?(.*)$/s);
  if (optional !== null) {
    return [optional[1] + optional[2] + optional[3], optional[1] + optional[3]].flatMap(alternatives);
  }
  const group = expression.match(/^(.*?)\(\?:([^()]*)\)(.*)$/s);
  if (group !== null) return group[2].split("|").flatMap((one) => alternatives(group[1] + one + group[3]));
  const set = expression.match(/^(.*?)(?<!\\)\[((?:[^\]\\^-]|\\[^a-z])+-?)\](.*)$/s);
  if (set !== null) {
    return set[2].match(/\\?./g).flatMap((one) => alternatives(`${set[1]}${one}${set[3]}`));
  }
  return [expression];
}

/** Returns `{ words, people }` of an expression that is a word; undefined for any other. */
function wordsOf(expression) {
  let rest = expression.replace("(?:^|[^g])news", "(?<!g)news");
  const before = rest.match(/^\(\?<!([^)]*)\)/);
  rest = rest.slice(before?.[0].length ?? 0);
  const after = rest.match(/\(\?!(?:\(\?:([^)]*)\)|([^)]*))\)$/);
  rest = after === null ? rest : rest.slice(0, -after[0].length);
  const words = [];
  for (const one of alternatives(rest)) {
    const word = { atStart: one.startsWith("^"), bound: one.startsWith("\\b"), ends: one.endsWith("\\b") };
    const bare = one.replace(/^(?:\^|\\b)/, "").replace(/\\b$/, "");
    // A digit at the end tells nothing apart.
    const text = bare.replace(/\\d$/, "");
    if (/(?<!\\)[[\](){}*+?.^$|]|\\[a-z]/i.test(text)) return undefined;
    words.push({ ...word, text: text.replace(/\\(.)/g, "$1").toLowerCase() });
  }
  const around = (text) => (text ?? "").split("|").filter(Boolean);
  const first = words.map(({ text }) => text).sort((one, other) => one.length - other.length)[0];
  const people = [
    ...around(before?.[1]).map((text) => text + first), ...around(after?.[1] ?? after?.[2]).map((text) => first + text),
  ];
  return { words, people };
}

function release(version) {
  const folder = mkdtempSync(join(tmpdir(), "tally-bots-"));
  try {
    const args = ["pack", `isbot@${version}`, "--json", "--pack-destination", folder];
    const packed = spawnSync("npm", args, { encoding: "utf8" });
    if (packed.status !== 0) throw new Error(`npm pack isbot@${version} failed: ${packed.stderr}`);
    const [{ filename, version: exact }] = JSON.parse(packed.stdout);
    spawnSync("tar", ["-xzf", join(folder, filename), "-C", folder]);
    const source = readFileSync(join(folder, "package/index.mjs"), "utf8");
    const lists = source.match(/\[\s*"(?:[^"\\]|\\.)*"(?:,\s*"(?:[^"\\]|\\.)*")*\s*\]/g) ?? [];
    const [list] = lists.sort((one, other) => other.length - one.length);
    return { exact, list: JSON.parse(list) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// A byte of a word: 0x80 if it is bounded before, 0x40 if it is bounded behind, and its length.
const encoded = ({ text, bound, ends }) => {
  const length = text.length + (bound ? 0x80 : 0) + (ends ? 0x40 : 0);
  return `\\x${length.toString(16).padStart(2, "0")}${text.replace(/[\\"]/g, "\\$&")}`;
};

function fold(all) {
  const isPlain = (word) => !word.bound && !word.ends && !word.atStart;
  const plain = all.filter(isPlain).map(({ text }) => text);
  // A word in which another stands is found by that one.
  const covers = (text, word) => word.text.includes(text) && (text !== word.text || !isPlain(word));
  const left = all.filter((word) => !plain.some((text) => covers(text, word)));
  return [...new Map(left.map((word) => [JSON.stringify(word), word])).values()];
}

function source({ exact, list }) {
  const known = new Set([...Object.keys(SHAPES), ...Object.keys(LEFT)]);
  const gone = [...known].filter((expression) => !list.includes(expression));
  if (gone.length > 0) throw new Error(`isbot ${exact} has no longer: ${gone.join("  ")}`);
  const read = [...list.filter((expression) => !known.has(expression)), ...ADDED].map((expression) => {
    const words = wordsOf(expression);
    if (words === undefined) throw new Error(`${expression} is no word: name it in SHAPES or LEFT of scripts/bots.mjs`);
    return words;
  });
  const words = fold(read.flatMap((one) => one.words));
  const named = [...new Set([...read.flatMap((one) => one.people), ...PEOPLE])].sort();
  const people = named.filter((text) => !named.some((other) => other !== text && text.includes(other)));
  const starts = words.filter(({ atStart }) => atStart);
  const groups = Map.groupBy(words.filter(({ atStart }) => !atStart), ({ text }) => text[0]);
  const order = [...groups].sort(([one], [other]) => one.charCodeAt(0) - other.charCodeAt(0));
  const bytes = (some) => some.map(encoded).sort().join("");
  const wrapped = (text) => `b"${text}"`.replace(/(.{100}[^\\]{0,12}?)(?=\\x[0-9a-f]{2})/g, "$1\\\n      ");
  return `//! The words of programs, written by \`scripts/bots.mjs\` from isbot ${exact} (npm, Unlicense). Do not edit.
//!
//! A word is a byte (0x80: no letter or digit stands before it; 0x40: none behind it; and its length) and its text.

/// Words at the beginning of a user agent.
pub(super) const STARTS: &[u8] = ${wrapped(bytes(starts))};

/// Words anywhere, by the byte that they begin with.
pub(super) const WORDS: &[(u8, &[u8])] = &[
${order.map(([first, some]) => `    (b'${first.replace(/['\\]/g, "\\$&")}', ${wrapped(bytes(some))}),`).join("\n")}
];

/// Names of people's programs and devices in which a word stands.
pub(super) const PEOPLE: &[u8] = ${wrapped(people.map((text) => encoded({ text })).join(""))};
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(LIST, source(release(process.argv[2] ?? "latest")));
  const formatted = spawnSync("rustfmt", ["--edition", "2024", LIST], { encoding: "utf8" });
  if (formatted.status !== 0) throw new Error(formatted.stderr);
  console.log(`${LIST} is written`);
}

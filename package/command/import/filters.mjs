// Which hits are page views, and which counter each counts.
import { isBot } from "./bots.mjs";

/** What pages load besides themselves. */
export const STATIC = new Set(
  (
    "avif bmp css cur eot flac gif ico jpeg jpg js json jsx m4a m4v map mjs mov mp3 mp4 mpeg ogg ogv otf png svg svgz swf tif tiff ts ttf " +
    "wasm wav webm webmanifest webp woff woff2"
  ).split(" "),
);

const isStatic = (path) => {
  const extension = path.slice(path.lastIndexOf("/") + 1).match(/\.([A-Za-z0-9]+)$/)?.[1];
  return extension !== undefined && STATIC.has(extension.toLowerCase());
};

/** Returns the test of a status: `200-299,304` or `any`; undefined where it cannot be read. */
export function statuses(text) {
  if (text === "any") return () => true;
  const ranges = text.split(",").map((part) => part.match(/^(\d{3})(?:-(\d{3}))?$/));
  if (ranges.some((range) => range === null)) return undefined;
  return (status) => ranges.some(([, from, to = from]) => status >= from && status <= to);
}

/** Why hits are left out, in the order in which that is looked at, and how to count them all the same. */
export const REASONS = {
  status: "their status is not asked for (--status any)",
  method: "their method is not asked for (--method any)",
  static: "they are files that pages load (--static)",
  bots: "their user agents are programs' (--bots)",
};

/** Returns a function that tells why a hit is left out; undefined where it counts. */
export function filter({ status, method, bots, statics }) {
  const methods = method === "any" ? undefined : new Set(method.toUpperCase().split(","));
  const seen = new Map();
  // Few user agents write most lines.
  const bot = (agent) => {
    let known = seen.get(agent);
    if (known === undefined) {
      if (seen.size > 10_000) seen.clear();
      seen.set(agent, (known = isBot(agent)));
    }
    return known;
  };
  return (hit, path) => {
    if (hit.status !== undefined && !status(hit.status)) return "status";
    if (methods !== undefined && hit.method !== undefined && !methods.has(hit.method)) return "method";
    if (!statics && isStatic(path)) return "static";
    // Common Log Format names no user agent: that says nothing.
    if (!bots && hit.user_agent !== undefined && bot(hit.user_agent)) return "bots";
    return undefined;
  };
}

const SLASHES = {
  keep: (path) => path,
  strip: (path) => path.replace(/\/(?:index\.html?)?$/, "") || "/",
  add: (path) =>
    path.replace(/\/index\.html?$/, "/").replace(/(\/[^/.]*)$/, (last) => (last.endsWith("/") ? last : `${last}/`)),
};

/** The rules of `--paths`. */
export const PATH_RULES = Object.keys(SLASHES);

/**
 * Returns a function from a hit to `{ id, page, query }`: the counter, the path by which it is filtered, and the query
 * with its mark.
 */
export function pathOf({ paths, rewrites, stripQuery, prefix }) {
  const slashes = SLASHES[paths];
  return (hit) => {
    const mark = hit.target.indexOf("?");
    const query = mark === -1 ? "" : hit.target.slice(mark);
    const path = hit.path ?? (mark === -1 ? hit.target : hit.target.slice(0, mark));
    let page = slashes(path);
    for (const [pattern, replacement] of rewrites) page = page.replace(pattern, replacement);
    return { id: prefix + page + (stripQuery ? "" : query), page, query };
  };
}

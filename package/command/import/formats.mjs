// Access logs of many servers, line by line, as one thing: a hit.
//
// A hit: `{ target, path, at_ms, address, method, status, referrer, user_agent, country }`; what a line does not say is
// undefined. `parse(line)` returns a hit, `null` for a line that is none (a comment, a header), or `undefined` for one
// that cannot be read. Sources: nginx, "ngx_http_log_module"; Apache, "Log Files"; Caddy, "Log format"; AWS,
// "CloudFront standard logging" and "Access logs for your Application Load Balancer"; Cloudflare, "Logpush: HTTP
// requests dataset"; GoatCounter, "CSV export".

const MONTHS = { Jan: 0, Feb: 1, Mar: 2, Apr: 3, May: 4, Jun: 5, Jul: 6, Aug: 7, Sep: 8, Oct: 9, Nov: 10, Dec: 11 };
const CLF_TIME = /^(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})$/;
const CLF = /^(\S+) (.*?)\[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) \S+(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/;
const REQUEST = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) (.+?)(?: HTTP\/[\d.]+)?$/;
const ALB = /^(?:(?:https?|h2|grpcs|wss?) )?(\d{4}-\d\d-\d\dT[\d:.]+Z) \S+ (\S+) \S+ \S+ \S+ \S+ (\d{3}|-) \S+ \d+ \d+ "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"/;
const CLOUDFRONT_FIELDS =
  "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query".split(" ");

// A program that names itself by nothing wrote a dash. A log without that field says nothing.
const agent = (text) => (text === "-" ? "" : text);
const textOf = (text) => (text === undefined || text === "" || text === "-" ? undefined : text);

function clfTime(text) {
  const [, day, month, year, hour, minute, second, sign, hours, minutes] = text.match(CLF_TIME) ?? [];
  if (MONTHS[month] === undefined) return undefined;
  const offset = (sign === "-" ? -1 : 1) * (60 * hours + 1 * minutes);
  return Date.UTC(year, MONTHS[month], day, hour, minute, second) - 60_000 * offset;
}

// The lines of a second have one time: it is read once.
function memoize(read) {
  let text;
  let known;
  return (next) => {
    if (next !== text) {
      text = next;
      known = read(next);
    }
    return known;
  };
}

function requestOf(text) {
  const [, method, target] = text.trim().match(REQUEST) ?? [];
  return { method, target: target?.trim() };
}

function clf() {
  const time = memoize(clfTime);
  return (line) => {
    const [, first, between, when, request, status, referrer, user_agent] = line.match(CLF) ?? [];
    if (first === undefined) return undefined;
    const at_ms = time(when);
    const { method, target } = requestOf(request);
    if (at_ms === undefined || target === undefined) return undefined;
    // Apache's vhost_combined begins with the host and its port.
    const address = /:\d{2,5}$/.test(first) && /^\S+ \S+ \S+ $/.test(between) ? between.split(" ")[0] : first;
    return {
      target, at_ms, address: textOf(address), method, status, referrer: textOf(referrer),
      user_agent: agent(user_agent),
    };
  };
}

// RFC 3339, or a unix time whose unit its size tells, as crates/tally-protocol/src/batch/logpush.rs does.
function timeOf(value) {
  if (typeof value === "string" && !/^\d+(\.\d+)?$/.test(value)) {
    const at_ms = Date.parse(value.replace(/^(\d{4})\/(\d\d)\/(\d\d) /, "$1-$2-$3T").replace(/(T[\d:.]+)$/, "$1Z"));
    return Number.isNaN(at_ms) ? undefined : at_ms;
  }
  const number = Number(value);
  if (!Number.isFinite(number) || value === null) return undefined;
  if (number < 1e11) return Math.floor(number * 1e3);
  if (number < 1e14) return Math.floor(number);
  return Math.floor(number < 1e17 ? number / 1e3 : number / 1e6);
}

function object(line) {
  if (line[0] !== "{") return undefined;
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function caddy() {
  return (line) => {
    const json = object(line);
    if (json === undefined) return undefined;
    const { request, ts, status } = json;
    if (typeof request?.uri !== "string") return json.logger === undefined && json.msg === undefined ? undefined : null;
    const at_ms = timeOf(ts);
    if (at_ms === undefined) return undefined;
    const header = (name) => textOf(request.headers?.[name]?.[0]);
    const address = textOf(request.client_ip ?? request.remote_ip ?? request.remote_addr?.replace(/:\d+$/, ""));
    return {
      target: request.uri, at_ms, address, method: request.method, status: String(status),
      referrer: header("Referer"), user_agent: request.headers === undefined ? undefined : (header("User-Agent") ?? ""),
    };
  };
}

function logpush() {
  return (line) => {
    const json = object(line);
    if (json === undefined) return undefined;
    const target = textOf(json.ClientRequestURI) ?? textOf(json.ClientRequestPath);
    if (target === undefined) return json.content === "tests" ? null : undefined;
    const at_ms = timeOf(json.EdgeStartTimestamp);
    if (at_ms === undefined) return undefined;
    return {
      target, at_ms, path: textOf(json.ClientRequestPath), address: textOf(json.ClientIP),
      method: json.ClientRequestMethod,
      status: json.EdgeResponseStatus === undefined ? undefined : String(json.EdgeResponseStatus),
      referrer: textOf(json.ClientRequestReferer), user_agent: agent(json.ClientRequestUserAgent),
      country: textOf(json.ClientCountry),
    };
  };
}

// The names that nginx's documentation gives its variables; and those that many `log_format … escape=json` use.
function nginxJson() {
  return (line) => {
    const json = object(line);
    const [method, target] =
      json?.request_uri === undefined
        ? Object.values(requestOf(String(json?.request ?? "")))
        : [json.request_method, json.request_uri];
    const at_ms = timeOf(json?.time_iso8601 ?? json?.msec ?? json?.time ?? json?.["@timestamp"] ?? null);
    if (typeof target !== "string" || at_ms === undefined) return undefined;
    return {
      target, at_ms, method, address: textOf(json.remote_addr),
      status: json.status === undefined ? undefined : String(json.status),
      referrer: textOf(json.http_referer ?? json.http_referrer), user_agent: agent(json.http_user_agent),
    };
  };
}

function alb() {
  return (line) => {
    const [, when, client, status, request, user_agent] = line.match(ALB) ?? [];
    const { method, target: url } = requestOf(request ?? "");
    const target = url?.replace(/^[a-z]+:\/\/[^/?]*/, "");
    if (target === undefined || method === "-") return undefined;
    return {
      target: target || "/", at_ms: Date.parse(when), address: client.replace(/:\d+$/, ""), method, status,
      user_agent: agent(user_agent),
    };
  };
}

// CloudFront writes its names with tabs, others of the W3C's format with spaces. User agents are percent-encoded, or
// have `+` for spaces.
function w3c() {
  let fields = CLOUDFRONT_FIELDS;
  const decoded = (text) => {
    if (text === undefined) return undefined;
    try {
      // CloudFront encodes the percent signs of its own encoding too.
      return decodeURIComponent(text.replaceAll("%25", "%").replaceAll("+", " "));
    } catch {
      return text;
    }
  };
  return (line) => {
    if (line[0] === "#") {
      const names = line.match(/^#Fields:\s*(.*)$/)?.[1];
      if (names !== undefined) fields = names.trim().split(/\s+/);
      return null;
    }
    const cells = line.includes("\t") ? line.split("\t") : line.split(" ");
    const cell = (name) => textOf(cells[fields.indexOf(name)]);
    const stem = cell("cs-uri-stem");
    const at_ms = Date.parse(`${cell("date")}T${cell("time")}Z`);
    if (stem === undefined || Number.isNaN(at_ms)) return undefined;
    const query = cell("cs-uri-query");
    return {
      target: query === undefined ? stem : `${stem}?${query}`, at_ms, address: cell("c-ip"), method: cell("cs-method"),
      status: cell("sc-status"), referrer: cell("cs(Referer)"),
      user_agent: decoded(agent(cells[fields.indexOf("cs(User-Agent)")])), country: cell("c-country"),
    };
  };
}

/** Returns the cells of a line of CSV (RFC 4180, without line breaks inside quotes). */
export function csv(line) {
  const cells = [];
  for (const [, quoted, plain] of line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)) {
    cells.push(quoted?.replaceAll('""', '"') ?? plain);
  }
  return cells;
}

// Each row is a visit, of a session that takes the place of the address. The first name carries the version of the
// format: `2Path`.
function goatcounter() {
  let names;
  return (line) => {
    const cells = csv(line);
    if (/^\d*Path$/.test(cells[0])) {
      names = cells.map((name) => name.replace(/^\d+/, ""));
      return null;
    }
    if (names === undefined) return undefined;
    const cell = (name) => textOf(cells[names.indexOf(name)]);
    const at_ms = Date.parse(cell("Date"));
    const path = cell("Path");
    if (path === undefined || Number.isNaN(at_ms)) return undefined;
    // An event of GoatCounter has a name where a page has a path.
    const isBot = !["0", "", undefined].includes(cell("Bot"));
    return {
      target: path, path, at_ms, address: cell("Session"), method: "GET", status: "200", referrer: cell("Referrer"),
      user_agent: isBot ? "bot" : (cell("UserAgent") ?? cell("Browser") ?? "browser"),
      country: cell("Location")?.slice(0, 2),
    };
  };
}

/** The formats by their names, in the order in which they are tried. */
export const FORMATS = { logpush, caddy, "nginx-json": nginxJson, alb, goatcounter, cloudfront: w3c, clf };

/** Other names of formats: what people have is called after their server. */
export const ALIASES = {
  nginx: "clf", apache: "clf", common: "clf", combined: "clf", elb: "alb", w3c: "cloudfront", iis: "cloudfront",
};

/** Returns the name of the format that most of these lines have; undefined where none of them can be read. */
export function formatOf(lines) {
  let best;
  for (const [name, make] of Object.entries(FORMATS)) {
    const parse = make();
    const read = lines.filter((line) => line !== "").map(parse);
    const hits = read.filter((hit) => hit !== undefined && hit !== null).length;
    const headers = read.filter((hit) => hit === null).length;
    const score = hits + (hits === 0 ? 0.1 : 0.01) * headers;
    if (score > (best?.score ?? 0)) best = { name, score };
  }
  return best?.name;
}

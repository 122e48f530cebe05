// Requests out of the API's description: valid ones, and ones that break it in one place.
//
// Invariants: a seed decides all of them; what is called valid fits the description by `faults`, and what is called
// invalid does not.
import { between, oneOf } from "../crash/random.mjs";
import { API, faults } from "./openapi.mjs";

const CHARACTERS = ["a", "B", "7", "-", "_", ".", "/", " ", "%", "?", "#", "&", "+", "ü", "漢", "😀", '"', "\\", "'"];
const CONTROLS = ["\u0000", "\n", "\u001f", "\u007f", "\u0085"];
const ADDRESSES = ["203.0.113.9", "2001:db8::1"];
const NO_ADDRESSES = ["", "nowhere", "999.1.1.1", "1.2.3"];
const YEAR_SECONDS = 31_536_000;

const resolved = (schema) =>
  schema?.$ref
    ? resolved(
        schema.$ref
          .slice(2)
          .split("/")
          .reduce((part, name) => part[name], API),
      )
    : schema;
const typesOf = (schema) => [schema.type ?? []].flat();

/** Makes values and requests from a source of numbers in [0, 1). `known`: a version, as answers have it. */
export class Requests {
  constructor(random, known) {
    this.random = random;
    this.known = known;
  }

  often(part) {
    return this.random() < part;
  }

  text(least, most) {
    const length = between(this.random, least, Math.min(most, this.often(0.1) ? most : 12));
    return Array.from({ length }, () => oneOf(this.random, CHARACTERS)).join("");
  }

  whole(least, most) {
    const [low, high] = [BigInt(least ?? 0), BigInt(most ?? 2n ** 53n)];
    const inside = [low, high, low + 1n, high - 1n, low + BigInt(Math.floor(this.random() * 1000))];
    return oneOf(this.random, inside.filter((number) => number >= low && number <= high));
  }

  /** A value that fits a schema; objects have each optional property with a chance. */
  value(reference) {
    const schema = resolved(reference);
    for (let attempt = 0; attempt < 400; attempt++) {
      const value = this.attempt(schema);
      if (faults(schema, value).length === 0) return value;
    }
    throw new Error(`no value was found for ${Object.keys(schema)}`);
  }

  attempt(schema) {
    if (schema.allOf) return this.attempt({ ...resolved(schema.allOf[0]), ...schema, allOf: undefined });
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return oneOf(this.random, schema.enum);
    if (schema.oneOf && !schema.properties) return this.attempt(resolved(oneOf(this.random, schema.oneOf)));
    if (schema["x-opaque"] && schema.example) return schema.example;
    if (schema["x-opaque"]) {
      return schema.pattern.includes("[*]") ? oneOf(this.random, ["*", `"${this.known}"`]) : this.known;
    }
    if (schema["x-address"]) return oneOf(this.random, ADDRESSES);
    if (schema["x-bytes-max"] === 1024 && this.often(0.2)) return "auto";
    const type = oneOf(this.random, typesOf(schema));
    if (type === "integer") return this.whole(schema.minimum, schema.maximum);
    if (type === "number") return oneOf(this.random, [0, 0.5, 12.25, 1e9, 3]);
    if (type === "boolean") return this.often(0.5);
    if (type === "null") return null;
    if (type === "array") {
      const length = between(this.random, schema.minItems ?? 1, 3);
      return Array.from({ length }, () => this.value(schema.items));
    }
    if (type === "object") return this.object(schema);
    if (schema["x-decimal"] && !(schema.pattern && this.often(0.5))) {
      return String(this.whole(schema.minimum, schema.maximum));
    }
    const shaped = [
      "FRA", "login", "1a2b3c", "#fff", "green", '"a key"', "order-1", "country,device", "campaign:spring",
      "referrer,browser", "0123456789abcdef", "0123456789abcdef".repeat(2), "today", "90d", "3600", "2026-11-28",
      "2026-11-28T13:00:00Z",
      String(this.whole(0, 99)),
    ];
    return schema.pattern && this.often(0.7)
      ? oneOf(this.random, shaped)
      : this.text(schema.minLength ?? 0, schema.maxLength ?? 40);
  }

  object(schema) {
    const required = schema.required ?? [];
    const entries = Object.entries(schema.properties ?? {})
      .filter(([name]) => required.includes(name) || this.often(0.35))
      .map(([name, property]) => [name, this.value(property)]);
    if (schema.propertyNames) {
      entries.push(
        ...["page", "utm-1_x"]
          .filter(() => this.often(0.6))
          .map((name) => [name, this.value(schema.additionalProperties)]),
      );
    }
    return Object.fromEntries(entries);
  }

  /** A value that does not fit a schema, near to one that does; undefined where none was found. */
  broken(reference) {
    const schema = resolved(reference);
    for (let attempt = 0; attempt < 60; attempt++) {
      const value = this.nearly(schema);
      if (value !== undefined && faults(schema, value).length > 0) return value;
    }
    return undefined;
  }

  nearly(schema) {
    const properties = schema.properties ?? schema.allOf?.map(resolved).find((one) => one.properties)?.properties;
    if (properties && this.often(0.85)) {
      const value = this.value(schema);
      const name = oneOf(this.random, Object.keys(properties));
      const how = between(this.random, 0, 3);
      if (how === 0) return { ...value, unknown: 1 };
      if (how === 1 && schema.required) {
        return Object.fromEntries(Object.entries(value).filter(([known]) => known !== schema.required[0]));
      }
      if (how === 2) return { ...value, [name]: this.value(properties[name]) };
      const broken = this.broken(properties[name]);
      return broken === undefined ? undefined : { ...value, [name]: broken };
    }
    if (schema.type === "array" && this.often(0.8)) {
      const broken = this.broken(schema.items);
      return broken === undefined ? undefined : [this.value(schema.items), broken];
    }
    const numbers = [schema.minimum, schema.maximum]
      .filter((bound) => bound !== undefined)
      .flatMap((bound) => [BigInt(Math.trunc(Number(bound))) - 1n, BigInt(Math.trunc(Number(bound))) + 1n]);
    const texts = [
      "", ".", "..", "x".repeat((schema.maxLength ?? 40) + 1), "ü".repeat(schema.maxLength ?? 40),
      oneOf(this.random, CONTROLS), oneOf(this.random, NO_ADDRESSES), "1.0", "-5", " 5", "strnog",
    ];
    return oneOf(this.random, [null, true, 1.5, [], {}, 0, -1, ...numbers, ...texts, ...numbers.map(String)]);
  }

  parameters(item, operation) {
    return [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved);
  }

  /** The values of an operation's parameters, by name, as its rules want them. */
  arguments(item, operation, now) {
    const rules = operation["x-parameters"] ?? {};
    const given = {};
    for (const parameter of this.parameters(item, operation)) {
      // What they hold is named by other parts of the request.
      if (["Content-Encoding", "Last-Event-ID"].includes(parameter.name)) continue;
      // What only an answer tells, as a cursor.
      const { "x-opaque": isOpaque, pattern, example } = resolved(parameter.schema);
      if (isOpaque && pattern === undefined && example === undefined) continue;
      if (parameter.required || this.often(0.3)) given[parameter.name] = this.value(parameter.schema);
    }
    for (const [name, needed] of Object.entries(rules.needs ?? {})) if (!(needed in given)) delete given[name];
    for (const [one, other] of rules.excludes ?? []) if (one in given) delete given[other];
    // What is kept, and for how long, depends on the clock: the description says so in words.
    if ("at" in given) given.at = BigInt(now - between(this.random, 0, 3_600));
    if ("at" in given && "window" in given) given.window = BigInt(between(this.random, 1, 86_400));
    // A window is of counts: the description says so in words, too.
    if ("by" in given && ("window" in given || "from" in given)) given.by = "count";
    if ("from" in given || "to" in given) {
      given.to = BigInt(now - between(this.random, 0, YEAR_SECONDS));
      given.from = given.to - BigInt(between(this.random, 0, 9_999));
    }
    // Each way to write a time means the same.
    for (const name of ["at", "from", "to"]) {
      if (typeof given[name] === "bigint" && this.often(0.3)) {
        given[name] = new Date(Number(given[name]) * 1000).toISOString().replace(".000", "");
      }
    }
    // What a log is of: the description says so in words, too.
    if (given.id === "site") given.site = "example.com";
    // The least is no more than the most: the description says so in words, too.
    if (given.min > given.max) [given.min, given.max] = [given.max, given.min];
    // Neighbours are fewer than rows: the description says so in words.
    if (typeof given.around === "string" && given.limit > 100n) given.limit = 100n;
    // Lines of an access log say no country: the description says so in words, too.
    if (given.format === "clf" && given.by?.includes("country")) given.by = "referrer,browser";
    // Rows of an export are values, and alerts have no prefix: the description says so in words.
    if (given.format === "csv") for (const name of ["history", "uniques", "samples", "alerts"]) delete given[name];
    if (given.alerts === "1") delete given.prefix;
    if (given.format === "ndjson") for (const name of ["id", "site", "by"]) delete given[name];
    if (Array.isArray(given.id) && given.op === "intersection") given.id = ["one", "two"];
    return given;
  }

  /** The request with these values: `{ method, path, body, headers }`. */
  request(path, method, operation, given, body) {
    const known = this.parameters(API.paths[path], operation);
    const inPlace = (where) => known.filter((one) => one.in === where && one.name in given).map(({ name }) => name);
    let target = path;
    for (const name of inPlace("path")) target = target.replace(`{${name}}`, () => encodeURIComponent(given[name]));
    const pairs = inPlace("query").flatMap((name) => [given[name]].flat().map((value) => [name, value]));
    const query = pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
    const headers = Object.fromEntries(inPlace("header").map((name) => [name, String(given[name])]));
    // What a key names is kept: a second request under it would be refused for the first.
    if ("Idempotency-Key" in headers) headers["Idempotency-Key"] = given["Idempotency-Key"];
    return { method: method.toUpperCase(), path: query ? `${target}?${query}` : target, headers, body };
  }
}

/** JSON in which bigints are numbers. */
export function jsonOf(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}:${jsonOf(part)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

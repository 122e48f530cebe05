// Checks answers against the description of the API. Invariant: a keyword that this file does not
// know is an error, so that nothing in the description goes unchecked by silence.
import { readFileSync } from "node:fs";
import { isIP } from "node:net";

// Whole numbers that a double would not hold are bigints.
export const API = JSON.parse(
  readFileSync(new URL("../../crates/tally-api/openapi.json", import.meta.url), "utf8"),
  (_, value, { source } = {}) =>
    typeof value === "number" && /^-?\d+$/.test(source) && !Number.isSafeInteger(value) ? BigInt(source) : value,
);

// Words that say nothing about what is valid.
const ANNOTATIONS = new Set([
  "description", "default", "example", "examples", "format", "title", "then", "else", "x-opaque",
]);

const TYPES = {
  string: (value) => typeof value === "string",
  integer: (value) => typeof value === "bigint" || Number.isInteger(value),
  number: (value) => typeof value === "bigint" || typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  array: Array.isArray,
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

// The part of the description that a reference is of.
const referred = (reference) => reference.slice(2).split("/").reduce((part, name) => part[name], API);

const isText = TYPES.string;
const isNumber = TYPES.number;

// Each keyword: whether it says nothing of such a value, or what it wants of it.
const KEYWORDS = {
  type: (wanted, value) => [wanted].flat().some((type) => TYPES[type](value)),
  const: (wanted, value) => value === wanted,
  enum: (wanted, value) => wanted.includes(value),
  minimum: (least, value) => !isNumber(value) || value >= least,
  maximum: (most, value) => !isNumber(value) || value <= most,
  exclusiveMaximum: (limit, value) => !isNumber(value) || value < limit,
  "x-bytes-max": (most, value) => !isText(value) || Buffer.byteLength(value) <= most,
  "x-address": (_, value) => !isText(value) || isIP(value) !== 0,
  minLength: (least, value) => !isText(value) || [...value].length >= least,
  maxLength: (most, value) => !isText(value) || [...value].length <= most,
  pattern: (pattern, value) => !isText(value) || new RegExp(pattern, "u").test(value),
  minItems: (least, value) => !Array.isArray(value) || value.length >= least,
  maxItems: (most, value) => !Array.isArray(value) || value.length <= most,
  maxProperties: (most, value) => !TYPES.object(value) || Object.keys(value).length <= most,
  required: (names, value) => !TYPES.object(value) || names.every((name) => Object.hasOwn(value, name)),
};

const NESTED = {
  $ref: (reference, value, at) => {
    return faults(referred(reference), value, at);
  },
  allOf: (schemas, value, at) => schemas.flatMap((schema) => faults(schema, value, at)),
  oneOf: (schemas, value, at) => {
    const fitting = schemas.filter((schema) => faults(schema, value, at).length === 0);
    return fitting.length === 1 ? [] : [`${at}: fits ${fitting.length} of the schemas of oneOf`];
  },
  anyOf: (schemas, value, at) => {
    const found = schemas.map((schema) => faults(schema, value, at));
    return found.some((those) => those.length === 0) ? [] : [`${at}: fits none of anyOf`];
  },
  not: (schema, value, at) => (faults(schema, value, at).length === 0 ? [`${at}: fits what it must not`] : []),
  dependentRequired: (rules, value, at) =>
    Object.entries(TYPES.object(value) ? rules : {})
      .filter(([name]) => Object.hasOwn(value, name))
      .flatMap(([, required]) => faults({ required }, value, at)),
  dependentSchemas: (rules, value, at) =>
    Object.entries(TYPES.object(value) ? rules : {})
      .filter(([name]) => Object.hasOwn(value, name))
      .flatMap(([, schema]) => faults(schema, value, at)),
  properties: (schemas, value, at) =>
    TYPES.object(value)
      ? Object.keys(schemas)
          .filter((name) => Object.hasOwn(value, name))
          .flatMap((name) => faults(schemas[name], value[name], `${at}.${name}`))
      : [],
  propertyNames: (schema, value, at) =>
    TYPES.object(value)
      ? Object.keys(value).flatMap((name) => faults(schema, name, `${at}, the name ${shown(name)}`))
      : [],
  items: (schema, value, at) =>
    Array.isArray(value) ? value.flatMap((item, index) => faults(schema, item, `${at}[${index}]`)) : [],
  prefixItems: (schemas, value, at) =>
    Array.isArray(value) ? schemas.flatMap((schema, index) => faults(schema, value[index], `${at}[${index}]`)) : [],
};

const shown = (value) => JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));

/** What is wrong with a value, by a schema of the description; empty where nothing is. */
export function faults(schema, value, at = "$") {
  if (schema === false) return [`${at}: is there, and may not be`];
  return Object.entries(schema).flatMap(([keyword, wanted]) => {
    if (ANNOTATIONS.has(keyword)) return [];
    if (keyword === "additionalProperties" && wanted === false) {
      const known = Object.keys(schema.properties ?? {});
      const others = TYPES.object(value) ? Object.keys(value).filter((name) => !known.includes(name)) : [];
      return others.map((name) => `${at}: has ${name}, which is not described`);
    }
    if (keyword === "additionalProperties") {
      const others = TYPES.object(value)
        ? Object.keys(value).filter((name) => !(name in (schema.properties ?? {})))
        : [];
      return others.flatMap((name) => faults(wanted, value[name], `${at}.${name}`));
    }
    if (keyword === "if") return faults(schema[faults(wanted, value).length === 0 ? "then" : "else"] ?? {}, value, at);
    // The bounds of a decimal string are those of the number that it is.
    if (keyword === "x-decimal") {
      if (!isText(value) || !/^-?\d+$/.test(value)) return [];
      const { minimum, maximum } = schema;
      return faults({ minimum, maximum }, BigInt(value), at);
    }
    if (Object.hasOwn(NESTED, keyword)) return NESTED[keyword](wanted, value, at);
    if (!Object.hasOwn(KEYWORDS, keyword)) throw new Error(`openapi.json uses ${keyword}, which is not checked here`);
    return KEYWORDS[keyword](wanted, value) ? [] : [`${at}: ${keyword} ${shown(wanted)} is not met`];
  });
}

// Names of an answer that its schema does not describe: a client could not know them.
function undescribed(schema, value, at = "$") {
  if (schema.$ref) {
    return undescribed(referred(schema.$ref), value, at);
  }
  if (TYPES.object(value) && schema.properties) {
    return Object.keys(value).flatMap((name) =>
      Object.hasOwn(schema.properties, name)
        ? undescribed(schema.properties[name], value[name], `${at}.${name}`)
        : [`${at}.${name} is not described`],
    );
  }
  return [];
}

const resolved = (part) => (part?.$ref ? resolved(referred(part.$ref)) : part);

function operationOf(method, path) {
  const wanted = path.split("/");
  for (const [template, methods] of Object.entries(API.paths)) {
    const parts = template.split("/");
    const fits = (part, index) =>
      part === wanted[index] ||
      /^\{\w+\}$/.test(part) ||
      (/^\{id\}\.\w+$/.test(part) && wanted[index]?.endsWith(part.slice("{id}".length))) ||
      (part === "{prefix}*" && wanted[index].endsWith("*"));
    const operation = methods[method.toLowerCase()];
    if (operation && parts.length === wanted.length && parts.every(fits)) return operation;
  }
  return undefined;
}

/** What is wrong with an answer, by the description; empty where nothing is. */
export function answerFaults(method, path, status, contentType, json, text) {
  // The gate reads any method and any path below it as its own.
  const ofGate = /^\/gate\/[^/]*/.exec(path)?.[0];
  if (ofGate !== undefined && (method !== "GET" || ofGate !== path)) {
    return answerFaults("GET", ofGate, status, contentType, json, text);
  }
  const type = contentType.split(";")[0];
  if (status >= 400) {
    // Each call names the codes of its refusals: only what is no call is refused with any.
    const refusals = operationOf(method, path)?.responses;
    if (refusals && !refusals[status]) return [`${method} ${path} is refused with ${status} ${json?.code}, not described`];
    const own = resolved(refusals?.[status])?.content[type]?.schema;
    if (type === "application/json" && own) return faults(own, json);
    const wanted = type === "application/problem+json" ? [] : [`a refusal is ${type}, not application/problem+json`];
    const problem = own ?? { $ref: "#/components/schemas/Problem" };
    const statusFaults = json?.status === status ? [] : [`the problem says status ${json?.status}, the answer ${status}`];
    return [...wanted, ...faults(problem, json), ...statusFaults];
  }
  const operation = operationOf(method, path);
  if (!operation) return [`${method} ${path} is answered ${status} and not described`];
  const response = operation.responses[String(status)];
  if (status === 304) return response ? [] : [`${method} ${path} is answered 304, which is not described`];
  if (status === 204 && response && !response.content) return text === "" ? [] : ["204 has a body"];
  const schema = (response?.content?.[type] ?? (type === "text/plain" ? response?.["x-text-plain"] : undefined))
    ?.schema;
  if (!schema) return [`${method} ${path} is answered ${status} ${type}, which is not described`];
  const value = type === "application/json" ? json : text;
  return [...faults(schema, value), ...undescribed(schema, value)];
}

// The tools that agents get, made of the description of the API.
//
// Invariant: a tool is one operation of openapi.json. Its name, description and arguments are those of the operation,
// so they change with it. Nothing here judges values: the server does.

/** Operations that read. */
export const READS = [
  "readTop", "readCounter", "readHistory", "readBreakdown", "listCounters", "aggregate", "readPrefixHistory",
  "readPrefixBreakdown", "listPolicies", "getPolicy", "peekLimit", "listOverrides", "listBoards", "readBoard",
  "listMembers", "readMember", "listAlerts", "getAlert", "getAlertDeliveries", "checkHealth",
];
/** Operations that change something, for `--write`. */
export const WRITES = ["increment", "putPolicy", "deletePolicy", "putOverride", "deleteOverride"];

/** An agent reads every description before its first call: what is longer ends after a sentence. */
export const DESCRIPTION_CHARS_MAX = 600;

// Answers are JSON with plain numbers, so nothing chooses another form.
const FORMS = ["format", "numbers"];
const METHODS = ["get", "put", "post", "delete"];
// No agent needs these words of a schema.
const isForAgents = (name) => name !== "example" && name !== "examples" && !name.startsWith("x-");

function resolved(document, { $ref, ...more }) {
  if ($ref === undefined) return more;
  const found = $ref.slice(2).split("/").reduce((part, name) => part[name], document);
  return { ...resolved(document, found), ...more };
}

/** Returns a schema without references. A schema that contains itself is an error. */
export function inlined(document, schema, above = []) {
  if (Array.isArray(schema)) return schema.map((one) => inlined(document, one, above));
  if (typeof schema !== "object" || schema === null) return schema;
  const { $ref } = schema;
  if (above.includes($ref)) throw new Error(`${$ref} contains itself`);
  const within = $ref === undefined ? above : [...above, $ref];
  const entries = Object.entries(resolved(document, schema));
  return Object.fromEntries(
    // Names of properties are anything, also `example`.
    entries.filter(([name]) => isForAgents(name)).map(([name, value]) => [
      name, name === "properties" ? propertiesOf(document, value, within) : inlined(document, value, within),
    ]),
  );
}

function propertiesOf(document, properties, above) {
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, inlined(document, value, above)]));
}

/** Returns the beginning of a text, up to the end of a sentence. */
export function shortened(text) {
  if (text.length <= DESCRIPTION_CHARS_MAX) return text;
  const end = text.lastIndexOf(". ", DESCRIPTION_CHARS_MAX - 1);
  return text.slice(0, end < 0 ? DESCRIPTION_CHARS_MAX : end + 1);
}

function operationOf(document, operationId) {
  for (const [template, item] of Object.entries(document.paths)) {
    const method = METHODS.find((one) => item[one]?.operationId === operationId);
    if (method === undefined) continue;
    const { parameters = [], ...operation } = item[method];
    const all = [...(item.parameters ?? []), ...parameters].map((one) => resolved(document, one));
    return { template, method, operation, parameters: all };
  }
  throw new Error(`openapi.json has no operation ${operationId}`);
}

function toolOf(document, operationId) {
  const { template, method, operation, parameters } = operationOf(document, operationId);
  const given = parameters.filter((one) => one.in !== "header" && !FORMS.includes(one.name));
  const properties = Object.fromEntries(
    given.map(({ name, description, schema }) => [name, { ...inlined(document, schema), description }]),
  );
  const required = given.filter((one) => one.required).map(({ name }) => name);
  const body = operation.requestBody && resolved(document, operation.requestBody);
  if (body !== undefined) {
    properties.body = inlined(document, body.content["application/json"].schema);
    if (body.required) required.push("body");
  }
  const isRead = method === "get";
  return {
    tool: {
      name: operationId,
      description: shortened(`${operation.summary} ${operation.description ?? ""}`.trim()),
      inputSchema: { type: "object", properties, required, additionalProperties: false },
      annotations: {
        readOnlyHint: isRead, destructiveHint: !isRead && method !== "post", idempotentHint: method !== "post",
        openWorldHint: false,
      },
    },
    template,
    method: method.toUpperCase(),
    path: [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
    query: given.filter((one) => one.in === "query").map(({ name }) => name),
    isKeyed: parameters.some(({ name }) => name === "Idempotency-Key"),
  };
}

/** Returns the tools by name: how agents see each, and how HTTP calls it. `write`: with those that change something. */
export function toolsOf(document, { write = false } = {}) {
  const names = write ? [...READS, ...WRITES] : READS;
  return new Map(names.map((name) => [name, toolOf(document, name)]));
}

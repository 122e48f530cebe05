// The Model Context Protocol over HTTP: each request is complete in itself, there are no sessions and no streams.
//
// Invariant: only programs of this machine are answered. The socket is on loopback, and the `Host` and the `Origin` of
// a request are names of loopback with its port, so a page whose name resolves to 127.0.0.1 reaches nothing.
import { createServer } from "node:http";
import { once } from "node:events";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { EXIT, Failure } from "../outcome.mjs";

const LOOPBACK = "127.0.0.1";
const NAMES = [LOOPBACK, "localhost", "[::1]"];
const PATH = "/mcp";

/** The most bytes of a request's body: the arguments of a few tools. */
export const BODY_BYTES_MAX = 1024 * 1024;

/** The most connections at a time. */
export const CONNECTIONS_MAX = 64;

// A client that sends nothing leaves its place to another one.
const HEADERS_MS_MAX = 10_000;
const REQUEST_MS_MAX = 30_000;

/** Returns whether a request comes from this machine, by its headers. */
export function isOfThisMachine({ host, origin }, port) {
  const isOwn = (name) => NAMES.some((one) => name === `${one}:${port}`);
  const of = /^http:\/\/(.+)$/.exec(origin ?? "")?.[1];
  return host !== undefined && isOwn(host) && (origin === undefined || (of !== undefined && isOwn(of)));
}

function refuse(response, status, message, headers = {}) {
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null });
  response.writeHead(status, { "content-type": "application/json", connection: "close", ...headers }).end(body);
}

async function answer(request, response, make) {
  const server = make();
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: undefined, enableJsonResponse: true, maxRequestBodySize: BODY_BYTES_MAX,
  });
  response.on("close", () => server.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
}

/** Listens, and resolves to `{ url, end() }`. `make`: makes the server of one request. */
export async function listen(port, make) {
  const limits = { headersTimeout: HEADERS_MS_MAX, requestTimeout: REQUEST_MS_MAX };
  const server = createServer(limits, (request, response) => {
    if (!isOfThisMachine(request.headers, server.address()?.port)) {
      return refuse(response, 403, `only programs of this machine are answered: call http://${LOOPBACK} without an Origin`);
    }
    if (request.url?.split("?")[0] !== PATH) return refuse(response, 404, `send requests to ${PATH}`);
    if (request.method !== "POST") return refuse(response, 405, "send POST: there is no stream", { allow: "POST" });
    answer(request, response, make).catch((error) => {
      if (!response.headersSent) refuse(response, 500, `${error?.message ?? error}`);
    });
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port, LOOPBACK);
  await once(server, "listening").catch(({ code, message }) => {
    const free = "choose another --http, or 0 for a free port";
    const why = {
      EADDRINUSE: `port ${port} is taken: end what listens there, or ${free}`,
      EACCES: `this user may not listen on port ${port}: ${free}`,
    };
    throw new Failure(EXIT.failed, why[code] ?? `port ${port} cannot be listened on: ${message}`);
  });
  return {
    url: `http://${LOOPBACK}:${server.address().port}${PATH}`,
    end: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    },
  };
}

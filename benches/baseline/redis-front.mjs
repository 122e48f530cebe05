// Redis behind HTTP in the form that @upstash/redis speaks, as little as that takes: what webdis is for its own form.
// Arguments: Redis's port. Writes the port that it listens on. Each request is one write to Redis; its replies are
// taken as they are.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { createConnection } from "node:net";

const redis = createConnection(Number(process.argv[2]), "127.0.0.1");
redis.setNoDelay(true);
const requests = [];
let received = Buffer.alloc(0);

// One reply at a place of the bytes, with where it ends; undefined where it is not all there.
function replyAt(bytes, at) {
  const end = bytes.indexOf("\r\n", at);
  if (end < 0) return undefined;
  const line = bytes.toString("latin1", at + 1, end);
  const after = end + 2;
  switch (bytes[at]) {
    case 0x24: {
      const length = Number(line);
      if (length < 0) return [null, after];
      return bytes.length < after + length + 2
        ? undefined
        : [bytes.toString("base64", after, after + length), after + length + 2];
    }
    case 0x2a: {
      const items = [];
      let next = after;
      for (let left = Number(line); left > 0; left -= 1) {
        const item = replyAt(bytes, next);
        if (item === undefined) return undefined;
        items.push(item[0]);
        next = item[1];
      }
      return [items, next];
    }
    case 0x3a:
      return [Number(line), after];
    case 0x2d:
      return [new Error(line), after];
    default:
      return [Buffer.from(line).toString("base64"), after];
  }
}

redis.on("data", (piece) => {
  received = received.length === 0 ? piece : Buffer.concat([received, piece]);
  let at = 0;
  for (let reply; requests.length > 0 && (reply = replyAt(received, at)) !== undefined; ) {
    at = reply[1];
    const first = requests[0];
    first.replies.push(reply[0] instanceof Error ? { error: reply[0].message } : { result: reply[0] });
    if (first.replies.length === first.count) requests.shift().done(first.replies);
  }
  received = received.subarray(at);
});

// Scripts say a flag that Redis 7.0 does not know; without it they have another name.
const names = new Map();
const sha1 = (text) => createHash("sha1").update(text).digest("hex");

function known([command, script, ...rest]) {
  if (/^evalsha$/i.test(command)) return [command, names.get(script) ?? script, ...rest];
  if (!/^eval$/i.test(command) || !script.startsWith("#!")) {
    return [command, script, ...rest].filter((word) => word !== undefined);
  }
  const plain = script.slice(script.indexOf("\n"));
  names.set(sha1(script), sha1(plain));
  return [command, plain, ...rest];
}

const encoded = (words) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`).join("")}`;

const server = createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const body = JSON.parse(Buffer.concat(pieces));
    const several = request.url.endsWith("/pipeline");
    const commands = several ? body : [body];
    const done = (replies) => {
      const status = !several && replies[0].error !== undefined ? 400 : 200;
      response
        .writeHead(status, { "content-type": "application/json" })
        .end(JSON.stringify(several ? replies : replies[0]));
    };
    requests.push({ count: commands.length, replies: [], done });
    redis.write(commands.map(known).map(encoded).join(""));
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));

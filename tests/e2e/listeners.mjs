// Listeners to what happens to keys: streams of server-sent events of Redis's dialect.
import { ORIGIN, until } from "./world.mjs";

class Listener {
  /** What a stream said of its subscriptions: the kind, the channel, how many there are. */
  begun = [];
  /** The messages: the pattern that took it, where there is one, the channel and the text. */
  messages = [];
  /** Why it ended, where it was told. */
  errors = [];
  /** Comments, which keep it open. */
  pings = 0;
  isClosed = false;

  take(line) {
    if (line.startsWith(":")) this.pings += 1;
    if (!line.startsWith("data: ")) return;
    const [kind, ...words] = line.slice("data: ".length).split(",");
    if (kind === "message") {
      this.messages.push({ channel: words[0], text: words.slice(1).join(",") });
    } else if (kind === "pmessage") {
      this.messages.push({ pattern: words[0], channel: words[1], text: words.slice(2).join(",") });
    } else if (kind === "error") this.errors.push(words.slice(1).join(","));
    else this.begun.push([kind, ...words]);
  }
}

/** Opens a stream. A refusal has its JSON. */
export async function listen(world, path, { method, headers = {}, body } = {}) {
  const listener = new Listener();
  let rest = "";
  const take = ({ text, closed }) => {
    if (closed !== undefined) {
      listener.isClosed = true;
      return;
    }
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) listener.take(line);
  };
  const { host } = world;
  const open = host.open?.bind(host) ?? host.listen.bind(host);
  const {
    status, headers: answerHeaders, body: bytes, live, say,
  } = await open(ORIGIN + path, { method, headers, body, colo: "FRA" }, take);
  Object.assign(listener, { status, headers: Object.fromEntries(answerHeaders), isClosed: !live });
  const text = Buffer.from(bytes, "base64").toString();
  if (!live && text !== "") listener.json = JSON.parse(text);
  listener.close = () => {
    say({ hangs_up: true });
    listener.isClosed = true;
  };
  listener.pause = () => say({ pauses: true });
  listener.resume = () => say({ pauses: false });
  if (live) await until(() => listener.begun.length > 0, "its beginning");
  return listener;
}

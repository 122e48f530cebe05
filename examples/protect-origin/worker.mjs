// Protects an origin with a rate limit: a Worker in front of it, with Tally as a service binding.
//
// Bindings: TALLY (the service "tally-edge"), TALLY_KEY (a secret: a key with the scope "write" on "limits/"), and
// ADDRESS_SALT (a secret: addresses are hashed with it, so that the limiter never sees one). See wrangler.jsonc.

// The policy lives in this code: 100 calls a minute from one client, never more in any minute. Add on_error: "closed" to
// keep calls from the origin while the limiter does not answer.
const POLICY = { limit: 100, window_seconds: 60 };

// What tells clients apart: an IPv4 address, also where it is written as IPv6 (::ffff:192.0.2.1), or the first 64 bits of an
// IPv6 address. A household has at least as many addresses as those leave, and a client could take another one for each call.
function networkOf(address) {
  if (!address.includes(":")) return address;
  // The URL parser knows every way to write one, and gives it in hexadecimal without leading zeros.
  const [head, tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (text) => (text ? text.split(":") : []);
  const zeros = tail === undefined ? 0 : 8 - groups(head).length - groups(tail).length;
  const all = [...groups(head), ...Array(zeros).fill("0"), ...groups(tail)];
  if (all.slice(0, 6).join(":") !== "0:0:0:0:0:ffff") return all.slice(0, 4).join(":");
  const bytes = all.slice(6).map((group) => parseInt(group, 16));
  return bytes.flatMap((two) => [two >> 8, two & 255]).join(".");
}

async function clientOf(request, env) {
  const network = networkOf(request.headers.get("cf-connecting-ip") ?? "unknown");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(env.ADDRESS_SALT + network));
  return Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// What Tally says of a request; 503 where it cannot be checked.
async function verdictOn(request, env) {
  try {
    return await env.TALLY.fetch(`https://tally/limits/website/${await clientOf(request, env)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${env.TALLY_KEY}` },
      body: JSON.stringify(POLICY),
      cf: request.cf,
    });
  } catch (error) {
    console.error(`the rate limit cannot be checked: ${error}`);
    return new Response(null, { status: 503 });
  }
}

export default {
  async fetch(request, env) {
    const verdict = await verdictOn(request, env);
    // 429 with Retry-After and RateLimit, ready to be passed on.
    if (verdict.status === 429) return verdict;
    if (verdict.status >= 500 && POLICY.on_error === "closed") {
      return new Response(null, { status: 503, headers: { "retry-after": "1" } });
    }
    // Whatever else it is, the origin answers: a limiter that is in trouble takes no website with it.
    const answer = await fetch(request);
    const response = new Response(answer.body, answer);
    for (const name of ["ratelimit", "ratelimit-policy"]) {
      const value = verdict.headers.get(name);
      if (value !== null) response.headers.set(name, value);
    }
    return response;
  },
};

// Protects an origin with a rate limit: a Worker in front of it, with Tally as a service binding.
//
// Bindings: TALLY (the service "tally-edge"), TALLY_KEY (a secret: a key with the scope "write" on "limits/"), and
// ADDRESS_SALT (a secret: addresses are hashed with it, so that the limiter never sees one). See wrangler.toml.

// The policy lives in this code: 100 calls a minute from one address, never more in any minute.
const POLICY = { limit: 100, window_seconds: 60 };

async function clientOf(request, env) {
  const address = request.headers.get("cf-connecting-ip") ?? "unknown";
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(env.ADDRESS_SALT + address));
  return Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// What Tally says of a request; 503 where it cannot be asked.
async function verdictOn(request, env) {
  try {
    return await env.TALLY.fetch(`https://tally/limits/website/${await clientOf(request, env)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${env.TALLY_KEY}` },
      body: JSON.stringify(POLICY),
      cf: request.cf,
    });
  } catch (error) {
    console.error(`the rate limit cannot be asked: ${error}`);
    return new Response(null, { status: 503 });
  }
}

export default {
  async fetch(request, env) {
    const verdict = await verdictOn(request, env);
    // 429 with Retry-After and RateLimit, ready to be passed on.
    if (verdict.status === 429) return verdict;
    // Whatever else it is, the origin answers: a limiter that is in trouble takes no website with it.
    const answer = await fetch(request);
    const told = new Response(answer.body, answer);
    for (const name of ["ratelimit", "ratelimit-policy"]) {
      const value = verdict.headers.get(name);
      if (value !== null) told.headers.set(name, value);
    }
    return told;
  },
};

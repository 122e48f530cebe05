// Counts each visit of a page and its visitors, then answers. Bindings: TALLY (the service "tally-edge"), TALLY_KEY (a secret: a key with `write`).
export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    const counted = env.TALLY.fetch(`https://tally/counters/${encodeURIComponent(pathname)}/increment`, {
      method: "POST",
      headers: { authorization: `Bearer ${env.TALLY_KEY}` },
      body: JSON.stringify({
        unique: "auto",
        ip: request.headers.get("cf-connecting-ip") ?? undefined,
        user_agent: request.headers.get("user-agent") ?? undefined,
      }),
      cf: request.cf,
    });
    // The visitor is answered first.
    ctx.waitUntil(counted);
    return new Response("Hello");
  },
};

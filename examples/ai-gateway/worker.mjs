// A gateway in front of a language model: each customer has a budget of tokens, which concurrent requests never exceed.
//
// Bindings: TALLY (the service "tally-edge"), TALLY_KEY (a secret: a key with the scope "write" and the prefix
// "limits/"), and MODEL (a service that streams an answer, one token a line). See README.md.

// The model is asked for no more, so an answer never needs more than was held.
const ANSWER_TOKENS_MAX = 400;
// Longer than any answer takes. A hold that nobody settles counts as used when this time ends.
const HOLD_SECONDS = 120;
const NEWLINE = 10;

// About four bytes a token. The tokenizer of a model knows it better.
const estimate = (prompt) => Math.ceil(new TextEncoder().encode(prompt).length / 4);

const ask = (env, request, path, body) =>
  env.TALLY.fetch(`https://tally/limits/tokens/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${env.TALLY_KEY}` },
    body: JSON.stringify(body),
    cf: request.cf,
  });

// The same body. `seen(chunk)` is called for each piece, and `over()` once, when it has ended or nobody reads it any more.
function watched(body, seen, over) {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) {
          seen(value);
          return controller.enqueue(value);
        }
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      over();
    },
    cancel(reason) {
      over();
      return reader.cancel(reason);
    },
  });
}

export default {
  async fetch(request, env, ctx) {
    const customer = request.headers.get("x-customer");
    if (customer === null) return new Response("send x-customer", { status: 400 });
    const key = encodeURIComponent(customer);
    const prompt = await request.text();
    let used = estimate(prompt);
    const reserved = await ask(env, request, `${key}/holds`, { amount: used + ANSWER_TOKENS_MAX, ttl_seconds: HOLD_SECONDS });
    // 429 with Retry-After, or 503 where no limiter answers: both are ready to be passed on.
    if (reserved.status !== 200) return reserved;
    const { hold } = await reserved.json();
    const settle = () => ctx.waitUntil(ask(env, request, `${key}/holds/${hold.id}/settle`, { amount: used }));
    try {
      const answer = await env.MODEL.fetch("https://model/", {
        method: "POST", headers: { "x-tokens-max": String(ANSWER_TOKENS_MAX) }, body: prompt,
      });
      const seen = (chunk) => (used += chunk.filter((byte) => byte === NEWLINE).length);
      return new Response(watched(answer.body, seen, settle), answer);
    } catch (error) {
      settle();
      return new Response(`the model does not answer: ${error.message}`, { status: 502 });
    }
  },
};

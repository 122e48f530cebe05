// Ends a round of a game: within a limit it counts the round, and writes the player's score.
// Bindings: TALLY (the entrypoint "Tally" of the service "tally-edge"), TALLY_KEY (a secret: a key with `write`).
import type { TallyRpc } from "edgetally/worker";

type Bindings = Omit<Env, "TALLY"> & { TALLY: TallyRpc };

export default {
  async fetch(request, env) {
    const { player, score } = await request.json<{ player: string; score: number }>();
    const shared = { key: env.TALLY_KEY, cf: request.cf };
    try {
      const { allowed } = await env.TALLY.limit("rounds", player, { limit: 2, window_seconds: 60, ...shared });
      if (!allowed) return new Response("Rest a minute.\n", { status: 429 });
      const { value } = await env.TALLY.increment("rounds", { by: { player }, ...shared });
      const { rank } = await env.TALLY.board("game", shared).write(player, { score });
      return Response.json({ rounds: value, rank });
    } catch (error) {
      // Refused, or no answer: the game goes on without its numbers.
      const { code, message } = error as Error & { code: string };
      return Response.json({ code, message });
    }
  },
} satisfies ExportedHandler<Bindings>;

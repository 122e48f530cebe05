// Calls one method of Tally's entrypoint, and answers with what came of it. `call` of the query: `{ method, args }`,
// with `board` for a method of a board, `{ raw }` for a value that JSON does not have, `{ fetch }` for a path,
// `{ leave }` to answer before the call is over.
function circle() {
  const by = {};
  by.country = by;
  return { by };
}

const RAW = {
  nan: { delta: NaN }, bigint: { delta: 2n }, map: { by: new Map([["country", "DE"]]) }, function: { delta: () => 2 },
  circle: circle(), cfMap: { cf: new Map([["colo", "FRA"]]) },
};

function called(env, { method, args = [], board, raw }) {
  const given = raw === undefined ? args : [...args, RAW[raw]];
  return board === undefined ? env.TALLY[method](...given) : env.TALLY.board(...board)[method](...given);
}

export default {
  async fetch(request, env) {
    const call = JSON.parse(new URL(request.url).searchParams.get("call"));
    if (call.fetch !== undefined) return env.TALLY.fetch(`https://tally${call.fetch}`);
    try {
      if (call.leave === true) {
        called(env, call).catch(() => {});
        return Response.json({});
      }
      return Response.json({ value: await called(env, call) });
    } catch (error) {
      const { name, code, status, message, problem } = error;
      return Response.json({ error: { isError: error instanceof Error, name, code, status, message, problem } });
    }
  },
};

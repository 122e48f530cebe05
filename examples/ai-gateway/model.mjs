// A model that answers each prompt with as many tokens as the prompt asks for, one a line.
export default {
  async fetch(request) {
    const most = Number(request.headers.get("x-tokens-max"));
    const wanted = Number((await request.text()).match(/\d+/)?.[0] ?? 0);
    let left = Math.min(wanted, most);
    return new Response(new ReadableStream({
      pull(controller) {
        if (left === 0) return controller.close();
        left -= 1;
        controller.enqueue(new TextEncoder().encode("token\n"));
      },
    }));
  },
};

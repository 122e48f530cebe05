// A door to a server that can be shut: what a browser sees of a service that stops and comes back.
import { once } from "node:events";
import { connect, createServer } from "node:net";

/** Opens a door on a port of its own that leads to `target`, a URL. Resolves to `{ url, shut, open, close }`. */
export async function openGate(target) {
  const sockets = new Set();
  const server = createServer((socket) => {
    const behind = connect(Number(target.port), target.hostname);
    for (const one of [socket, behind]) {
      sockets.add(one);
      one.on("close", () => {
        sockets.delete(one);
        socket.destroy();
        behind.destroy();
      });
      one.on("error", () => one.destroy());
    }
    socket.pipe(behind).pipe(socket);
  });
  const listen = async (port) => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return server.address().port;
  };
  const port = await listen(0);
  const shut = async () => {
    const closed = new Promise((done) => server.close(done));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    url: `http://127.0.0.1:${port}`,
    shut,
    open: () => listen(port),
    close: () => (server.listening ? shut() : undefined),
  };
}

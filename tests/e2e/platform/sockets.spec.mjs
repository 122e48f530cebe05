// What only a socket can send: paths as they stand, and clients that hang up.
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { numbers } from "../calls.mjs";
import { openWorld, until } from "../world.mjs";

let world;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());


// URL parsers take `.` and `..` out of paths, so they are sent as they stand, by hand.
for (const dots of [".", "..", "%2e", "%2E%2e"]) {
  test(`${dots} is no id`, async () => {
    const { hostname, port } = await world.url();
    const socket = connect(Number(port), hostname);
    socket.write(`POST /counters/${dots}/increment HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    let answer = "";
    socket.setEncoding("utf8").on("data", (text) => (answer += text));
    await once(socket, "close");
    expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(answer).toMatch(/application\/problem\+json/i);
    expect((await world.well("GET", "/counters")).entries).toEqual([]);
  });
}

test("clients that hang up change nothing for the others", async () => {
  const url = await world.url();
  // A socket's request names no datacenter, so nor may the others: the counter has one cell.
  const here = { colo: null };
  await world.add("a", undefined, here);
  const request = `POST /counters/a/increment HTTP/1.1\r\nHost: ${url.host}\r\nContent-Length: 0\r\n\r\n`;
  const visit = (hangsUp) =>
    new Promise((done, failed) => {
      let text = "";
      const socket = connect(Number(url.port), url.hostname, () => {
        socket.write(request);
        if (hangsUp) setImmediate(() => (socket.destroy(), done(undefined)));
      });
      socket.on("error", hangsUp ? () => done(undefined) : failed);
      socket.on("data", (chunk) => {
        text += chunk;
        const body = /\r\n\r\n(.*\})/s.exec(text);
        if (body) done(JSON.parse(body[1])), socket.destroy();
      });
    });
  // The first of every round hangs up, so whoever leads the batch is often one that is gone.
  let sent = 1;
  const values = [];
  for (let round = 0; round < 15; round += 1) {
    const answers = await Promise.all(numbers(16).map((index) => visit(index % 2 === 0)));
    sent += 16;
    values.push(...answers.filter((answer) => answer !== undefined).map(({ value }) => value));
  }
  expect(values.length).toBe(15 * 8);
  expect(new Set(values).size).toBe(values.length);
  // Those that hung up are counted or not; nothing else is, and the counter goes on.
  const { value } = await world.strong("a", "", here);
  expect(value).toBeGreaterThanOrEqual(values.length + 1);
  expect(value).toBeLessThanOrEqual(sent);
  await until(async () => (await world.add("a", undefined, here)).exact, "exact values");
});

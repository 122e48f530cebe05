// A database, a log or a registry that is lost or damaged is named. It is never taken for a new one, so no count that
// was acknowledged is lost in silence; and all is there again once the file is.
import assert from "node:assert/strict";
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { placeFor } from "./place.mjs";

const WITHIN = { timeout: 120_000 };
const COUNTERS = 40;
const PAGE_BYTES = 4096;
const FRAME_BYTES = 24 + PAGE_BYTES;
const LOG_HEADER_BYTES = 32;

const place = placeFor("damage");

const ids = Array.from({ length: COUNTERS }, (_, number) => `c-${number}`);
const begin = (options) => place.begin({ variables: { TALLY_TABLETS: "2" }, ...options });
const add = (url, id) => fetch(`${url}/counters/${id}/increment`, { method: "POST" });
const strong = (url, id) => fetch(`${url}/counters/${id}?consistency=strong`);

/** Counts each counter twice, and resolves once the server has ended by a signal. */
async function counted(signal) {
  const { server, url } = await begin();
  for (const id of [...ids, ...ids]) assert.equal((await add(url, id)).status, 200);
  await server.end(signal);
}

const tablets = () => {
  const objects = join(place.data, "objects/tally-tablet-v1");
  return readdirSync(objects).filter((name) => name.endsWith(".sqlite")).map((name) => join(objects, name));
};

/**
 * Each read has all that was acknowledged, or says that it is not exact; each write adds to it. What does neither is
 * 503. Resolves to how many calls did without the damaged part.
 */
async function unanswered(url) {
  let away = 0;
  for (const id of ids) {
    for (const answer of [await strong(url, id), await add(url, id)]) {
      const body = await answer.json();
      const isAway = answer.status === 503 || (answer.status === 200 && body.exact === false);
      if (!isAway) assert.ok(answer.status === 200 && body.value >= 2, `${id}: ${JSON.stringify(body)}`);
      away += Number(isAway);
    }
  }
  return away;
}

const fill = (file, from = 0, bytes = undefined) => {
  const content = readFileSync(file);
  writeFileSync(file, content.fill(0x5a, from, bytes === undefined ? content.length : from + bytes));
};

const AFTER_THE_END = {
  "of no bytes": ([file]) => truncateSync(file, 0),
  "that is missing": ([file]) => rmSync(file),
  "cut in its middle": ([file]) => truncateSync(file, Math.floor(statSync(file).size / PAGE_BYTES / 2) * PAGE_BYTES),
  "cut within its first page": ([file]) => truncateSync(file, 100),
  "cut by one byte": ([file]) => truncateSync(file, statSync(file).size - 1),
  "of garbage": ([file]) => fill(file),
  "of garbage after its header": ([file]) => fill(file, 100),
  "that is another object's": ([file, other]) => cpSync(other, file),
};

const AFTER_A_KILL = {
  "of no bytes beside its log": ([file]) => truncateSync(file, 0),
  "that is missing beside its log": ([file]) => rmSync(file),
  "whose log is missing": ([file]) => rmSync(`${file}-wal`),
  "whose log has no bytes": ([file]) => truncateSync(`${file}-wal`, 0),
  "whose log begins with garbage": ([file]) => fill(`${file}-wal`, 0, 8),
  "whose log has garbage in its middle": ([file]) => fill(`${file}-wal`, LOG_HEADER_BYTES + FRAME_BYTES + 24, 100),
};

describe("the native server names a database", () => {
  for (const [signal, kinds] of [["SIGTERM", AFTER_THE_END], ["SIGKILL", AFTER_A_KILL]]) {
    for (const [kind, damage] of Object.entries(kinds)) {
      test(kind, WITHIN, async () => {
        await counted(signal);
        const files = tablets();
        assert.equal(files.length, 2);
        const kept = `${place.data}-kept`;
        cpSync(place.data, kept, { recursive: true });
        damage(files);
        const left = [files[0], `${files[0]}-wal`].map((name) => (existsSync(name) ? readFileSync(name) : undefined));
        const { server, url } = await begin();
        assert.equal((await fetch(`${url}/healthz`)).status, 200);
        const away = await unanswered(url);
        assert.ok(away > 0 && away < 2 * COUNTERS, `${away} calls were not answered`);
        assert.deepEqual(await server.end(), { code: 0, signal: null });
        const name = files[0].split("/").at(-1);
        assert.match(server.errors, new RegExp(`the database .*${name} cannot be opened: .*backup`));
        const after = [files[0], `${files[0]}-wal`].map((name) => (existsSync(name) ? readFileSync(name) : undefined));
        assert.ok(after[0] === left[0] || after[0].equals(left[0]), "the file is left as it is");
        if (left[1] !== undefined) assert.ok(after[1].equals(left[1]), "the log is left as it is");
        for (const ending of ["", "-wal"]) {
          rmSync(files[0] + ending, { force: true });
          const whole = files[0].replace(place.data, kept) + ending;
          if (existsSync(whole)) cpSync(whole, files[0] + ending);
        }
        const again = await begin();
        for (const id of ids) {
          const answer = await strong(again.url, id);
          assert.equal(answer.status, 200, id);
          const { value } = await answer.json();
          assert.ok(value === 2 || value === 3, `${id}: ${value}`);
        }
        await again.server.end();
        assert.equal(again.server.errors, "");
      });
    }
  }

  test("of whichever class, if it is empty or missing", WITHIN, async () => {
    await counted("SIGTERM");
    const objects = join(place.data, "objects");
    const files = readdirSync(objects, { recursive: true }).filter((name) => name.endsWith(".sqlite"));
    assert.ok(files.length > 2, `${files.length} files`);
    const whole = new Map(files.map((name) => [name, readFileSync(join(objects, name))]));
    for (const lose of [(file) => truncateSync(file, 0), (file) => rmSync(file)]) {
      for (const name of files) lose(join(objects, name));
      const { server, url } = await begin();
      for (const id of ids) assert.equal((await strong(url, id)).status, 503, id);
      for (const id of ids) assert.equal((await add(url, id)).status, 503, id);
      await server.end();
      for (const name of files) assert.ok(server.errors.includes(name), `${name} is named`);
      for (const [name, bytes] of whole) writeFileSync(join(objects, name), bytes);
    }
    const { server, url } = await begin();
    for (const id of ids) assert.equal((await (await strong(url, id)).json()).value, 2);
    await server.end();
  });

  test("and goes on without it once the loss is accepted", WITHIN, async () => {
    await counted("SIGTERM");
    const [file] = tablets();
    rmSync(file);
    const { server, url } = await begin({ options: ["--accept-loss"] });
    for (const id of ids) assert.equal((await add(url, id)).status, 200, id);
    await server.end();
    assert.match(server.errors, /the counts of .* are accepted as lost/);
    const again = await begin();
    for (const id of ids) assert.equal((await strong(again.url, id)).status, 200, id);
    await again.server.end();
    assert.equal(again.server.errors, "");
  });

  test("but one with content is only named until it is moved away", WITHIN, async () => {
    await counted("SIGTERM");
    const [file] = tablets();
    truncateSync(file, Math.floor(statSync(file).size / PAGE_BYTES / 2) * PAGE_BYTES);
    const { server, url } = await begin({ options: ["--accept-loss"] });
    assert.ok((await unanswered(url)) > 0);
    await server.end();
    assert.match(server.errors, /is not accepted as lost, since it has content: .* move it away/);
    rmSync(file);
    const without = await begin();
    assert.ok((await unanswered(without.url)) > 0, "what it had is not taken for 0");
    await without.server.end();
    const accepted = await begin({ options: ["--accept-loss"] });
    for (const id of ids) assert.equal((await add(accepted.url, id)).status, 200, id);
    await accepted.server.end();
  });
});

describe("the native server does not start where its registry", () => {
  const KINDS = { "is missing": rmSync, "is empty": (file) => truncateSync(file, 0), "is garbage": fill };
  for (const [kind, damage] of Object.entries(KINDS)) {
    test(kind, WITHIN, async () => {
      await counted("SIGKILL");
      const file = join(place.data, "registry.sqlite");
      const whole = readFileSync(file);
      damage(file);
      const refused = place.server();
      assert.equal((await refused.ended()).code, 1);
      assert.match(refused.errors, /registry .*registry\.sqlite cannot be opened .*backup/);
      writeFileSync(file, whole);
      const { server, url } = await begin();
      for (const id of ids) assert.equal((await (await strong(url, id)).json()).value, 2);
      await server.end();
      // Where there is no copy, it is made anew from the databases.
      rmSync(file);
      const third = await begin({ options: ["--accept-loss"] });
      for (const id of ids) assert.equal((await (await strong(third.url, id)).json()).value, 2);
      await third.server.end();
      truncateSync(tablets()[0], 0);
      const fourth = await begin();
      assert.ok((await unanswered(fourth.url)) > 0);
      await fourth.server.end();
    });
  }
});

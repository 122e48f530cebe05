// The programs of docs/operate/alerts.md that check a signature: they take what Tally signs, and nothing else.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { parse, read } from "./pages.mjs";

// The delivery that tests/native/alert_body.rs signs.
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY =
  '{"type":"alert.firing","alert":"many","state":"firing","id":"alert_00000000000000ff_firing","incident":"00000000000000ff","counter":"orders","when":{"value":{"above":10}},"value":11,"threshold":10,"as_of":2000,"exact":true,"since":1000,"sent_at":1614265330999}';
const HEADERS = {
  "webhook-id": "alert_00000000000000ff_firing",
  "webhook-timestamp": "1614265330",
  "webhook-signature": "v1,sTIZZsW3PFIOdm4Ro5TBoXz+vyBd9yOA8d2L0UPqGwY=",
};
const NOW = 1_614_265_400;
const OTHER = "v1,AAAAZsW3PFIOdm4Ro5TBoXz+vyBd9yOA8d2L0UPqGwY=";
const CASES = [
  ["as it was sent", SECRET, HEADERS, BODY, NOW, true],
  ["with a second signature, of a secret before", SECRET, { ...HEADERS, "webhook-signature": `${OTHER} ${HEADERS["webhook-signature"]}` }, BODY, NOW, true],
  ["with another body", SECRET, HEADERS, BODY.replace('"value":11', '"value":12'), NOW, false],
  ["with another id", SECRET, { ...HEADERS, "webhook-id": "alert_00000000000000ff_resolved" }, BODY, NOW, false],
  ["with another signature", SECRET, { ...HEADERS, "webhook-signature": OTHER }, BODY, NOW, false],
  ["with a short signature", SECRET, { ...HEADERS, "webhook-signature": "v1,AAAA" }, BODY, NOW, false],
  ["under another secret", "whsec_AAAAr8GKYqrTwjUPD8ILPZIo2LaLaSw0", HEADERS, BODY, NOW, false],
  ["too late", SECRET, HEADERS, BODY, NOW + 400, false],
  ["with a later time than was signed", SECRET, { ...HEADERS, "webhook-timestamp": String(NOW) }, BODY, NOW, false],
];

const { blocks } = parse(read("docs/operate/alerts.md"));
const program = (language) => blocks.find((block) => block.language === language).text;
const folder = mkdtempSync(join(tmpdir(), "tally-alerts-"));
after(() => rmSync(folder, { recursive: true }));

test("the program in JavaScript", async () => {
  const path = join(folder, "check.mjs");
  writeFileSync(path, program("js"));
  const { isFromTally } = await import(pathToFileURL(path));
  for (const [how, secret, headers, body, now, expected] of CASES) {
    assert.equal(isFromTally(secret, headers, body, now), expected, how);
  }
});

test("the program in Python", () => {
  const asks = `${program("python")}
import json, sys
print(json.dumps([is_from_tally(secret, headers, body, now) for _, secret, headers, body, now, _ in json.load(sys.stdin)]))
`;
  const { stdout, stderr } = spawnSync("python3", ["-c", asks], { input: JSON.stringify(CASES), encoding: "utf8" });
  assert.equal(stderr, "");
  const expected = CASES.map(([, , , , , taken]) => taken);
  assert.deepEqual(JSON.parse(stdout), expected);
});

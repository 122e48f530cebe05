import { Tally } from "edgetally";

const tally = new Tally({ url: process.argv[2], key: process.env.TALLY_KEY });
const { value } = await tally.increment("downloads", { by: { country: "DE" } });
for (let index = 0; index < 1_000; index += 1) tally.count("clicks", { unique: `user ${index}` });
await tally.flush();
const { allowed, remaining } = await tally.limit("login", "bob", { limit: 100, window_seconds: 60 });
console.log(value, (await tally.get("clicks", { consistency: "strong" })).value, allowed, remaining);

// What of the specs runs on the native server, and by name what does not, with the reason: that runs in virtual time.
//
// Invariant: each test runs on one of the two (tests/server/served.test.mjs). What both show, the server shows.

/** Specs that need a hand inside of the deployment, a queue of the platform's, or hours of virtual time. */
const FILES = [
  "convergence", "described", "gifts", "limits-away", "live-away",
  "operations-away", "queue-bound", "redis-clients", "seconds", "shared-flush", "sharing", "thousands", "unreachable",
  // It begins servers by itself, on workerd and natively, on whichever host it runs.
  "snapshots",
];

/** Tests, by words of their names. */
const TESTS = {
  "calls that are lost, or parts that do not answer: nothing reaches into the server": [
    "a datacenter that does not answer is named", "a datacenter that does not answer is in the tree", "with faults",
    "an import whose answer is lost",
    "with parts that do not answer", "retries through lost calls", "while the limiter is away",
    "a join that fails takes no room", "what a cell did not confirm", "without the aggregator its part",
    "time that was waited for a cell", "lost calls and lost answers", "an event whose key cannot be looked at",
    "a strong read says that it is not exact while", "a try with a name counts once",
    "commands of sorted sets count once under a key", "where a datacenter does not answer",
    "without the directory visitors wait", "what a runtime was ended with",
    "a counter that cannot be reached holds up only itself",
  ],
  "settings with which the server does not start, or that differ between the two Workers": [
    "nothing is configured", "where nothing is configured", "a setting that may not be so",
    "a rounding that cannot be read", "where the number of limiters changes",
  ],
  "an address by another name than that of the header Host: a request over a socket has one": [
    "browsers may ask with all headers",
  ],
  "a server that is begun again has no open sockets, and no second process looks into a database in use": [
    "a socket outlives the memory of its hub", "with a disk and a past",
    "a deleted counter leaves nothing", "an expired counter is cleared", "a sliding counter is cleared",
    "a counter that expires while nothing runs",
    "what is not said to be committed is written soon",
  ],
  "virtual time: it stands still while a test computes, or passes a minute in no time": [
    "keys that end by themselves are told of", "replies that are stored",
    "HEAD of no call changes",
    "whoever reads by a share has the streams", "a revoked share ends at once here",
    "a narrow writer fills its part of the keys", "percentiles over time are those of each step",
    "a repeated check takes once", "a refused check gets its refusal again",
    "a hold that nobody settles ends by itself", "a limit of concurrency counts what is held now",
    "an override and its end are in effect everywhere", "what a key has used stays used under an override",
    "an unlimited key is admitted whatever it costs",
  ],
  "quotas return, and keys end, while a busy machine computes": [
    "a body creates as many counters as an address may", "reads are paid for by the calls that they need",
    "most checks of a hot key are admitted without a call", "a key ends when it is told to, a counter too",
  ],
  "half a minute and more passes in it, of which nothing is the server's": [
    "an admin sees what each cell stores", "the parts of Redis's values are the sums",
    "a share ends when it was to end", "a revoked key ends in another isolate within the bound",
    "a counter that ends by its own setting ends no later",
  ],
  "a client that calls while the server starts again is refused its connection, which is no answer of Tally": [
    "objects that are let go under load",
  ],
  "the buffers of the machine hold what a client does not read, and that it hung up is noticed at the next write": [
    "who does not read is told so", "a key listens to what it may read, has so many streams",
  ],
};

const WORDS = Object.values(TESTS).flat();
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const ANY = WORDS.map(escaped).join("|");

export const UNSERVED_FILES = FILES.map((name) => `${name}.spec.mjs`);
export const UNSERVED_WORDS = WORDS;
/** Matches the names of the tests of other files that do not run. */
export const UNSERVED_TESTS = new RegExp(ANY);
/** Matches the names of all tests that run. */
export const SERVED_TESTS = new RegExp(`^(?!.*(?:${ANY}))`);

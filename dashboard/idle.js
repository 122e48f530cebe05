// When requests may be sent.
//
// Invariants: a page that nobody sees sends none; one that nobody has touched for a minute sends at most ten in any
// minute. Whoever asks more waits until it is seen, or touched, or the minute is over.

const MINUTE_MS = 60_000;
// One less: requests take time, so the service may see them closer together than they were sent.
const REQUESTS_MAX = 9;
const LOOK_MS = 1_000;
const WAKING = ["visibilitychange", "pointerdown", "keydown"];
// When requests of the last minute were sent, oldest first.
const sent = [];
let touched_ms = performance.now();

for (const type of ["pointerdown", "pointermove", "keydown", "wheel", "hashchange", "visibilitychange"]) {
  globalThis.addEventListener?.(type, () => (touched_ms = performance.now()), { passive: true, capture: true });
}

/** Returns whether nobody has touched the page for a minute. */
function isIdle() {
  return performance.now() - touched_ms > MINUTE_MS;
}

/** Resolves after a time, or as soon as the page is seen or touched. */
function rest(ms) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      for (const type of WAKING) document.removeEventListener(type, end);
      done();
    };
    const timer = setTimeout(end, ms);
    for (const type of WAKING) document.addEventListener(type, end);
  });
}

/** Resolves when a request may be sent. Throws what `signal` was aborted for. */
export async function turn(signal) {
  for (;;) {
    signal?.throwIfAborted();
    const now_ms = performance.now();
    while (sent.length > 0 && now_ms - sent[0] >= MINUTE_MS) sent.shift();
    if (!document.hidden && (!isIdle() || sent.length < REQUESTS_MAX)) break;
    await rest(LOOK_MS);
  }
  sent.push(performance.now());
}

/**
 * Runs `work` again and again while the page is seen, each time `pause_ms()` after it was done, and at once when it is
 * seen again. Returns `{ again, stop }`; `again` runs it now, or right after the run that is under way.
 */
export function repeat(work, pause_ms) {
  let timer;
  let isOver = false;
  let isRunning = false;
  let isRequested = false;
  const run = async () => {
    clearTimeout(timer);
    if (isOver || isRunning || document.hidden) return;
    isRunning = true;
    isRequested = false;
    try {
      await work();
    } finally {
      isRunning = false;
      if (!isOver) timer = setTimeout(run, isRequested ? 0 : pause_ms());
    }
  };
  const again = () => {
    isRequested = true;
    return run();
  };
  document.addEventListener("visibilitychange", run);
  run();
  const stop = () => {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", run);
  };
  return { again, stop };
}

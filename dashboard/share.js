// A share: a key that may read what begins with one prefix, given by a link. Invariants: it stays in the tab, as a key
// does; a link replaces no key of the tab unless who uses the tab says so, and brings no key but a share's.
import { key, setKey } from "./api.js";

const PREFIX = "tally-share-prefix";
// As crates/tally-wire/src/rights/share.rs makes them.
const TOKEN = /^share_[0-9a-f]{16}_[0-9a-f]{32}$/;

/** Returns what to do with the token of a link: `take` it, `ask` first, or `refuse` it. `own` is the key of the tab. */
export function answerTo(token, own) {
  if (!TOKEN.test(token)) return "refuse";
  return own === "" || own === token ? "take" : "ask";
}

/** Returns the prefix that this tab may read, where it was opened by a share; else undefined. */
export function sharedPrefix() {
  return sessionStorage.getItem(PREFIX) ?? undefined;
}

/** Takes the token of a link, if it may be taken unasked. Returns what to do with it, as `answerTo`. */
export function openShare(token, prefix) {
  const answer = answerTo(token, key());
  if (answer === "take") takeShare(token, prefix);
  return answer;
}

/** Takes the token of a link instead of the tab's key. */
export function takeShare(token, prefix) {
  setKey(token);
  sessionStorage.setItem(PREFIX, prefix);
}

/** Forgets that the tab was opened by a share. */
export function forgetShare() {
  sessionStorage.removeItem(PREFIX);
}

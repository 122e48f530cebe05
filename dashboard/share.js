// A share: a key that may read what begins with one prefix, given by a link. Invariant: it stays in the tab, as a key
// does.
import { setKey } from "./api.js";

const PREFIX = "tally-share-prefix";

/** Returns the prefix that this tab may read, where it was opened by a share; else undefined. */
export function sharedPrefix() {
  return sessionStorage.getItem(PREFIX) ?? undefined;
}

/** Takes the token of a link. */
export function takeShare(token, prefix) {
  setKey(token);
  sessionStorage.setItem(PREFIX, prefix);
}

/** Forgets that the tab was opened by a share. */
export function forgetShare() {
  sessionStorage.removeItem(PREFIX);
}

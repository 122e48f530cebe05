// A counter that shows its newest value:  const likes = useCounter(tally, "likes");  <b>{likes?.value ?? "–"}</b>
import { useSyncExternalStore } from "react";
import type { LiveCounter, Tally } from "./index.ts";

/**
 * Returns the newest state of a counter; `undefined` before it is known, `null` while it does not exist. All who use it
 * share one stream.
 */
export function useCounter(tally: Tally, id: string): LiveCounter | null | undefined {
  const store = tally.useCounter(id);
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getSnapshot);
}

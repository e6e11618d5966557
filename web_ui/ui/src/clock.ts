/** The page's heartbeat: ages are computed from it, so that nothing looks fresh because nothing was drawn. */

import { computed, signal } from "@preact/signals";
import { clockSkew, labMoved, lastMessage, opened } from "./socket";

export const now = signal(performance.now());
setInterval(() => (now.value = performance.now()), 200);

/** Seconds since the last message of the server, or since the first is waited for. */
export const age = computed(() => Math.max(0, (now.value - Math.max(lastMessage.value, opened.value)) / 1000));
/** Seconds since the laboratory behind the server gave a new state; 0 when none runs. */
export const labAge = computed(() => Math.max(0, (now.value - labMoved.value) / 1000));
export const STALE_S = 2.5;
/** Whether the server is not heard: nothing can be asked of it, and only a stop is tried all the same. */
export const silent = computed(() => age.value > STALE_S);
/** Whether what is shown of the laboratory may no longer be true; commands would only be left lying. */
export const stale = computed(() => silent.value || labAge.value > STALE_S);

/** Seconds since a wall-clock moment of the server. */
export function since(ms: number): number {
  void now.value;
  return Math.max(0, (Date.now() + clockSkew.value - ms) / 1000);
}

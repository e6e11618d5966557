/** The page's heartbeat: ages are computed from it, so that nothing looks fresh because nothing was drawn. */

import { computed, signal } from "@preact/signals";
import { clockSkew, labMoved, lastMessage } from "./socket";

export const now = signal(performance.now());
setInterval(() => (now.value = performance.now()), 200);

/** Seconds since the last message of the server; infinity before the first. */
export const age = computed(() => (lastMessage.value ? Math.max(0, (now.value - lastMessage.value) / 1000) : Infinity));
/** Seconds since the laboratory behind the server gave a new state; 0 when none runs. */
export const labAge = computed(() => Math.max(0, (now.value - labMoved.value) / 1000));
export const STALE_S = 2.5;
/** Whether what is shown may no longer be true. */
export const stale = computed(() => age.value > STALE_S || labAge.value > STALE_S);

/** Seconds since a wall-clock moment of the server. */
export function since(ms: number): number {
  void now.value;
  return Math.max(0, (Date.now() + clockSkew.value - ms) / 1000);
}

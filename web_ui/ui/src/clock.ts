/** The page's clock: ages are recomputed five times a second, so that old data is never shown as new. */

import { computed, signal } from "@preact/signals";
import { clockSkew, labMoved, lastMessage, opened } from "./socket";

export const now = signal(performance.now());
setInterval(() => (now.value = performance.now()), 200);

/** Seconds since the last message from the server, or since the connection was opened. */
export const age = computed(() => Math.max(0, (now.value - Math.max(lastMessage.value, opened.value)) / 1000));
/** Seconds since the lab gave the server a new state; 0 when no lab runs. */
export const labAge = computed(() => Math.max(0, (now.value - labMoved.value) / 1000));
export const STALE_S = 2.5;
/** Whether the server is silent. Then only a stop is still sent. */
export const silent = computed(() => age.value > STALE_S);
/** Whether the data of the lab may be outdated. Then only a stop is still sent. */
export const stale = computed(() => silent.value || labAge.value > STALE_S);

/** Changes once a second: with many stations, clocks that all change five times a second would keep the browser busy. */
const second = computed(() => Math.floor(now.value / 1000));

/** Seconds since a wall-clock moment of the server. */
export function since(ms: number): number {
  void second.value;
  return Math.max(0, (Date.now() + clockSkew.value - ms) / 1000);
}

/** Move a robot from this tab: keys, game pad and touch pads, sent thirty times a second while the robot is held. */

import { signal } from "@preact/signals";

export type Hold = "none" | "connecting" | "waiting" | "moving";
export const hold = signal<Hold>("none");
/** Names of the task's actions, once the station has answered. */
export const actions = signal<string[]>([]);
/** Why the last take-over ended; empty when the operator gave back. */
export const lost = signal("");
/** Share of the full speed, 0 to 1. */
export const speed = signal(0.5);

/** For each action the key for less and the key for more. */
export const KEYS: [string, string][] = [["a", "d"], ["s", "w"], ["q", "e"], ["j", "l"], ["k", "i"], ["u", "o"], ["f", "h"], ["g", "t"]];
const EVERY_MS = 33;
const DEAD_ZONE = 0.15;
const STICK_AXES = 4;
const pressed = new Set<string>();
/** Touch pads: index of an action -> -1 to 1. */
const touched = new Map<number, number>();

/** A touch pad asks for an action, -1 to 1; 0 when the finger is lifted. */
export function touch(action: number, value: number): void {
  if (value) touched.set(action, value);
  else touched.delete(action);
  send();
}
let line: WebSocket | undefined;
let timer: ReturnType<typeof setInterval> | undefined;

export function takeOver(station: string): void {
  if (line) return;
  lost.value = "";
  hold.value = "connecting";
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const opened = new WebSocket(`${scheme}://${location.host}/api/v1/takeover/${encodeURIComponent(station)}`);
  line = opened;
  opened.onopen = () => (timer = setInterval(send, EVERY_MS));
  opened.onmessage = (event: MessageEvent<string>) => take(JSON.parse(event.data) as Answer);
  opened.onclose = (event) => line === opened && end(lost.value || (event.code === 1000 ? "" : event.reason || "The connection to the server was lost."));
  addEventListener("keydown", onKey);
  addEventListener("keyup", onKey);
  addEventListener("blur", onBlur);
  document.addEventListener("visibilitychange", onHidden);
}

export function giveBack(): void {
  if (line?.readyState === WebSocket.OPEN) line.send(JSON.stringify({ gives_back: true }));
  end("");
}

interface Answer { state: "waiting" | "moving" | "lost"; actions?: string[]; detail?: string }

function take(answer: Answer): void {
  if (answer.state === "lost") lost.value = answer.detail ?? "The take-over ended.";
  else hold.value = answer.state;
  if (answer.actions?.length) actions.value = answer.actions;
}

function end(why: string): void {
  const before = line;
  line = undefined;
  clearInterval(timer);
  pressed.clear();
  touched.clear();
  removeEventListener("keydown", onKey);
  removeEventListener("keyup", onKey);
  removeEventListener("blur", onBlur);
  document.removeEventListener("visibilitychange", onHidden);
  hold.value = "none";
  lost.value = why;
  before?.close();
}

const onBlur = () => {
  giveBack();
  lost.value = "The window lost the focus, so the robot was given back.";
};
const onHidden = () => document.hidden && onBlur();

function onKey(event: KeyboardEvent): void {
  const key = event.key.toLowerCase();
  if (event.type === "keydown" && key === "escape") return giveBack();
  // With a modifier the browser may keep the release of a key to itself, so every key counts as released.
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  if (modified) pressed.clear();
  else if (!KEYS.some((pair) => pair.includes(key))) return;
  else if (event.type === "keydown") pressed.add(key);
  if (event.type === "keyup") pressed.delete(key);
  if (!modified) event.preventDefault();
  send(); // at once: the next regular message may be 33 ms away
}

function send(): void {
  if (line?.readyState !== WebSocket.OPEN) return;
  // Which axes of other pads are sticks is not known; a trigger at rest reports −1 on some.
  const pad = navigator.getGamepads?.().find((one) => one?.connected && one.mapping === "standard");
  const axes = KEYS.map(([less, more], index) => {
    const keys = (pressed.has(more) ? 1 : 0) - (pressed.has(less) ? 1 : 0);
    const stick = (index % 2 ? -1 : 1) * (index < STICK_AXES ? pad?.axes[index] ?? 0 : 0); // a stick reports up as −1; up is more, as on a touch pad
    const value = keys || touched.get(index) || (Math.abs(stick) > DEAD_ZONE ? stick : 0);
    return Math.max(-1, Math.min(1, value * speed.value));
  });
  line.send(JSON.stringify({ axes }));
}

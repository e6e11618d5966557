/** One WebSocket per tab; each topic is a signal that holds the newest document. */

import { type Signal, signal } from "@preact/signals";
import type { AuthoredTask, Command, FleetDocument } from "./types";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
interface Message { kind: string; topic?: string; topics?: string[]; seq?: number; body?: Json; detail?: string; at_ms?: number; lab_s?: number }
/** A picture as an object address, and performance.now() of when the server got it. */
export interface Shown { address: string; at: number }
interface Topic { document: Signal<unknown>; seq: number; users: number; topic: string }

/** performance.now() of the last message of any kind; 0 before the first. */
export const lastMessage = signal(0);
/** performance.now() of when the connection was opened. */
export const opened = signal(0);
/** performance.now() of the newest state of the lab, as the server reports it. */
export const labMoved = signal(Infinity);
export const connected = signal(false);
/** Milliseconds to add to Date.now() for the server's clock, so that ages do not depend on the clock of this computer. */
export const clockSkew = signal(0);
/** Called when the server reports that the session has ended. */
export const onSignedOut: { run: () => void } = { run: () => undefined };

const topics = new Map<string, Topic>();
const pictures = new Map<string, Signal<Shown | undefined>>();
/** Topics that the server refused because this tab has too many; requested again when a topic is closed. */
const refused = new Set<string>();
let socket: WebSocket | undefined;
let wanted = false;
let delay = 250;

export function open(): void {
  if (!wanted) opened.value = performance.now();
  wanted = true;
  if (socket) return;
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const line = new WebSocket(`${scheme}://${location.host}/api/v1/socket`);
  line.binaryType = "arraybuffer";
  socket = line;
  line.onopen = () => {
    delay = 250;
    connected.value = true;
    refused.clear();
    const names = [...topics.keys()];
    if (names.length) line.send(JSON.stringify({ subscribe: names }));
  };
  line.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
    lastMessage.value = performance.now();
    if (typeof event.data === "string") take(JSON.parse(event.data) as Message);
    else takePicture(event.data);
  };
  line.onclose = (event) => {
    if (socket !== line) return;
    socket = undefined;
    connected.value = false;
    if (event.code === 4401) onSignedOut.run();
    else if (wanted) {
      setTimeout(() => wanted && open(), delay);
      delay = Math.min(delay * 2, 5000);
    }
  };
}

export function close(): void {
  wanted = false;
  const line = socket;
  socket = undefined;
  connected.value = false;
  lastMessage.value = 0;
  line?.close();
  for (const topic of topics.values()) topic.document.value = undefined;
}

/** The signal of a topic; call `leave` when it is no longer shown. */
export function watch<T>(name: string): Signal<T | undefined> {
  let topic = topics.get(name);
  if (!topic) {
    topic = { document: signal<unknown>(undefined), seq: 0, users: 0, topic: name };
    topics.set(name, topic);
    subscribe({ subscribe: [name] });
  }
  topic.users += 1;
  return topic.document as Signal<T | undefined>;
}

export function leave(name: string): void {
  const topic = topics.get(name);
  if (!topic || --topic.users > 0) return;
  topics.delete(name);
  if (!refused.delete(name)) subscribe({ unsubscribe: [name], subscribe: [...refused] });
  const shown = pictures.get(name);
  if (shown?.value) URL.revokeObjectURL(shown.value.address);
  pictures.delete(name);
}

/** The newest picture of a camera (undefined before the first), and why there is none now. */
export function picture(station: string, camera: string): { shown: Signal<Shown | undefined>; why: Signal<{ why: string } | undefined> } {
  const name = `camera/${station}/${camera}`;
  let shown = pictures.get(name);
  if (!shown) {
    shown = signal<Shown | undefined>(undefined);
    pictures.set(name, shown);
  }
  return { shown, why: watch<{ why: string }>(name) };
}

function subscribe(change: { subscribe?: string[]; unsubscribe?: string[] }): void {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(change));
}

function take(message: Message): void {
  if (message.at_ms !== undefined) clockSkew.value = message.at_ms - Date.now();
  if (message.lab_s !== undefined) labMoved.value = message.lab_s ? performance.now() - 1000 * message.lab_s : Infinity;
  for (const name of message.topics ?? []) refuse(name, message.detail ?? "");
  const topic = message.topic === undefined ? undefined : topics.get(message.topic);
  if (!topic || message.seq === undefined) return;
  refused.delete(topic.topic);
  if (message.kind === "snapshot") topic.document.value = message.body;
  else if (message.seq === topic.seq + 1) topic.document.value = patched(topic.document.value as Json, message.body);
  else return subscribe({ subscribe: [topic.topic] }); // a message was lost: ask for a new snapshot
  topic.seq = message.seq;
}

/** Show the reason in place of the document: `why` of a picture, `problem` of a campaign. */
function refuse(name: string, why: string): void {
  const topic = topics.get(name);
  if (!topic) return;
  refused.add(name);
  topic.document.value = { why, problem: why };
}

function takePicture(data: ArrayBuffer): void {
  const size = new DataView(data).getUint16(0);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 2, size))) as { topic: string; age_ms: number };
  const shown = pictures.get(head.topic);
  if (!shown) return;
  refused.delete(head.topic);
  const before = shown.value;
  const address = URL.createObjectURL(new Blob([new Uint8Array(data, 2 + size)], { type: "image/jpeg" }));
  shown.value = { address, at: performance.now() - head.age_ms };
  const topic = topics.get(head.topic);
  if (topic) topic.document.value = undefined; // clear the reason why there was no picture
  if (before) setTimeout(() => URL.revokeObjectURL(before.address), 1000);
}

/** A JSON merge patch (RFC 7396), without touching what stays the same. */
function patched(old: Json, patch: Json | undefined): Json {
  if (patch === undefined || patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch ?? null;
  const base = old !== null && typeof old === "object" && !Array.isArray(old) ? { ...old } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete base[name];
    else base[name] = typeof value === "object" ? patched(base[name] ?? null, value) : value;
  }
  return base;
}

export const fleet = watch<FleetDocument>("fleet");
export const commands = watch<Record<string, Command>>("commands");
/** Tasks that agents wrote, by id, oldest first; `problem`: why they cannot be read. */
export const tasks = watch<{ problem: string; tasks?: Record<string, AuthoredTask> }>("tasks");

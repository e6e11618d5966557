/** Notifications of the browser: one for each alarm that lasts, with an image of its first station that has a camera. */

import { effect, signal } from "@preact/signals";
import { refusal } from "./command";
import { go } from "./router";
import { clockSkew, fleet } from "./socket";
import type { Alarm } from "./types";

const KEPT = "enpire-notify";
/** An alarm that ends earlier is not reported. */
const SETTLED_MS = 5000;
/** A station makes live images only while they are requested, so the first request may come back empty. */
const TRIES = 6, TRY_MS = 500;
/** An older image is not of the alarm: a station that hangs leaves one behind. */
const OLDEST_S = 3;
/** How long the browser may take to load the image of a notification. */
const LOADS_MS = 60_000;

const allowed = () => "Notification" in window && Notification.permission === "granted";
export const notifying = signal(localStorage.getItem(KEPT) === "on" && allowed());

export async function toggleNotifying(): Promise<void> {
  if (!notifying.value && !allowed()) await Notification.requestPermission();
  notifying.value = !notifying.value && allowed();
  localStorage.setItem(KEPT, notifying.value ? "on" : "off");
}

/** Alarm -> the stations of its last notification. */
const shown = new Map<string, string[]>();

effect(() => {
  const alarms = fleet.value?.alarms ?? {};
  if (!notifying.value) return;
  for (const key of shown.keys()) if (!alarms[key]) shown.delete(key);
  for (const alarm of Object.values(alarms)) {
    const known = shown.get(alarm.key) ?? [];
    const settled = Date.now() + clockSkew.value >= alarm.newest_ms + SETTLED_MS;
    if (alarm.acknowledged_by || !settled || alarm.names.every((name) => known.includes(name))) continue;
    shown.set(alarm.key, alarm.names);
    void report(alarm);
  }
});

async function report(alarm: Alarm): Promise<void> {
  const image = await still(alarm);
  if (image) setTimeout(() => URL.revokeObjectURL(image), LOADS_MS);
  const note = opened(`ENPIRE: ${alarm.text}`, {
    body: `${alarm.names.slice(0, 5).join(", ")}${alarm.names.length > 5 ? ` and ${alarm.names.length - 5} more` : ""}`,
    tag: alarm.key, requireInteraction: alarm.tone === "bad", ...(image && { image, icon: image }),
  } as NotificationOptions);
  if (!note) return;
  note.onclick = () => {
    focus();
    go("/inbox");
    note.close();
  };
}

/** A notification; browsers of phones show none from a page. */
function opened(title: string, options: NotificationOptions): Notification | undefined {
  try {
    return new Notification(title, options);
  } catch {
    notifying.value = false;
    refusal.value = "This browser shows no notifications of a page. Use the webhook in Settings, or a browser on a computer.";
    return undefined;
  }
}

/** The address of the newest live image of the first station with a camera. */
async function still({ names }: Alarm): Promise<string | undefined> {
  const station = names.map((name) => fleet.value?.stations[name]).find((one) => one?.cameras.length);
  if (!station) return undefined;
  for (let turn = 0; turn < TRIES; turn++) {
    const answer = await fetch(`/api/v1/stations/${encodeURIComponent(station.name)}/cameras/${encodeURIComponent(station.cameras[0]!)}`).catch(() => undefined);
    if (answer?.ok && Number(answer.headers.get("age")) <= OLDEST_S) return URL.createObjectURL(await answer.blob());
    await new Promise((done) => setTimeout(done, TRY_MS));
  }
  return undefined;
}

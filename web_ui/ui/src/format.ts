/** Numbers, durations and times as text. */

import type { CampaignView } from "./types";

export const percent = (value: number | null | undefined, digits = 1): string =>
  value === null || value === undefined || !Number.isFinite(value) ? "–" : `${(100 * value).toFixed(digits)} %`;

/** A share as a goal is written: 97.5 %, 95 %. */
export const goalPercent = (value: number): string => `${+(100 * value).toFixed(1)} %`;

/** The success of a goal: 95 %, or at least 97.5 % where the exact lower bound must reach it. */
export const goalShare = (value: number, by: "rate" | "bound"): string => (by === "bound" ? "at least " : "") + goalPercent(value);

/** A goal as text: "at least 97.5 % within 160 commands, median of at most 50 commands". */
export const goalText = ({ success, by, commands, limit_ticks }: CampaignView["goal"]): string =>
  goalShare(success, by) + (limit_ticks ? ` within ${limit_ticks} commands` : "")
  + (commands ? `, median of at most ${commands} commands` : "");

const NAMES = new Intl.Collator("en", { numeric: true });
/** The order of names with numbers in them: sim-2 before sim-10. */
export const byName = (one: { name: string }, other: { name: string }): number => NAMES.compare(one.name, other.name);

export const whole = (value: number | undefined): string => (value ?? 0).toLocaleString("en-GB").replaceAll(",", "\u202f");

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 0.9995) return value > 0 ? `${Math.round(1000 * value)} ms` : "0 s";
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 60) return `${value.toFixed(0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(value % 60)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** A time of day; with the date when it is not today. */
export function clock(ms: number): string {
  const at = new Date(ms), time = at.toLocaleTimeString("en-GB");
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time.slice(0, 5)}`;
}

export const short = (id: string): string => (id.includes(":") ? id : id.slice(0, 8)) || "–";

export const moment = (stamp_s: number): string =>
  new Date(stamp_s * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

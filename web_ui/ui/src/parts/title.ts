/** The title of the browser's tab: stale data and what needs a person first, so that they are seen in a row of tabs. */

import { useLayoutEffect } from "preact/hooks";
import { decoded } from "../router";

const NAMES = new Map([
  ["setup", "Fleet"], ["campaigns", "Campaigns"], ["episodes", "Episodes"], ["compare", "Compare"],
  ["policies", "Policies"], ["inbox", "Inbox"], ["start", "Start a campaign"], ["settings", "Settings"],
]);
const PARTS = new Map([["report", "Report"], ["failures", "Where it fails"]]);

/** Set the title of the tab. Every page outside the frame needs one of its own, or that of the page before stays. */
export const useTitle = (title: string): void => useLayoutEffect(() => void (document.title = title), [title]);

/** `waiting`: things in the inbox that need a person. */
export function titleOf(address: string, stale: boolean, waiting: number): string {
  const state = stale ? "stale · " : waiting ? `(${waiting}) ` : "";
  return `${state}${nameOf(address)} · ENPIRE`;
}

function nameOf(address: string): string {
  const [first = "", id, part = ""] = address.split("/").filter(Boolean);
  if (!first) return "Fleet";
  if (first === "stations" && id) return decoded(id);
  if (first === "campaigns" && id) return PARTS.get(part) ?? "Campaign";
  if (first === "episodes" && id) return `Episode ${id.slice(-10)}`;
  return NAMES.get(first) ?? "No page";
}

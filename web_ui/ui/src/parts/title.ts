/** The title of the browser's tab: stale data and open alarms first, so that they are seen in a row of tabs. */

import { decoded } from "../router";

const NAMES: Record<string, string> = {
  setup: "Fleet", campaigns: "Campaigns", episodes: "Episodes", compare: "Compare", policies: "Policies",
  inbox: "Inbox", start: "Start a campaign", settings: "Settings",
};
const PARTS: Record<string, string> = { report: "Report", failures: "Where it fails" };

/** `waiting`: alarms that no operator has acknowledged. */
export function titleOf(address: string, stale: boolean, waiting: number): string {
  const state = stale ? "stale · " : waiting ? `(${waiting}) ` : "";
  return `${state}${nameOf(address)} · ENPIRE`;
}

function nameOf(address: string): string {
  const [first = "", id, part = ""] = address.split("/").filter(Boolean);
  if (!first) return "Fleet";
  if (first === "stations" && id) return decoded(id);
  if (first === "campaigns" && id) return PARTS[part] ?? "Campaign";
  if (first === "episodes" && id) return `Episode ${id.slice(-10)}`;
  return NAMES[first] ?? "No page";
}

/** What needs an operator, grouped by cause, each group with its command. */

import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import type { FleetDocument, Headline, Station, CommandKind } from "../types";

interface Cause { key: string; text: string; tone: string; kind?: CommandKind; act?: string; names: string[] }

/** The campaign and the stations that need an operator, grouped by cause. */
export function causes({ campaign, stations }: FleetDocument): Cause[] {
  const found = new Map<string, Cause>();
  if (campaign?.paused) found.set("campaign", campaignPaused(campaign));
  for (const station of Object.values(stations)) {
    const cause = causeOf(station);
    if (!cause) continue;
    const group = found.get(cause.key) ?? { ...cause, names: [] };
    group.names.push(station.name);
    found.set(cause.key, group);
  }
  return [...found.values()];
}

const campaignPaused = ({ name, paused_why }: Headline): Cause => ({
  key: "campaign", text: `Paused: ${paused_why || "no station receives new orders"}`, tone: "", kind: "continue campaign", act: "Resume campaign", names: [name],
});

function causeOf(station: Station): Omit<Cause, "names"> | undefined {
  if (station.alarm) return { key: station.alarm, text: station.alarm, tone: "", kind: "pause", act: "Pause" };
  if (station.phase === "fault") return { key: "fault", text: "Stopped by a fault", tone: "bad", kind: "stop", act: "Stop" };
  if (station.phase === "offline") return { key: "offline", text: "Offline", tone: "bad" };
  if (station.stopped || station.phase === "stopped") return { key: "stopped", text: "Stopped until resumed", tone: "bad", kind: "resume", act: "Resume" };
  if (station.paused) return { key: "paused", text: "Paused: no new orders", tone: "", kind: "resume", act: "Resume" };
  if (station.phase === "wait-person") return { key: "person", text: "Waiting for an operator", tone: "" };
  return undefined;
}

/** Targets of a group's command; a command to the campaign has no target. */
const targets = ({ kind, names }: Cause) => (kind === "continue campaign" ? [""] : names);

export function Attention({ now }: { now: FleetDocument }) {
  const groups = causes(now);
  if (stale.value) return null; // the notice of the page says so
  if (!groups.length) return !Object.keys(now.stations).length ? null : <span class="calm-line"><span aria-hidden="true">✓</span> Nothing needs attention.</span>;
  return (
    <section class="attention" aria-label="Needs attention">
      {groups.map((group) => (
        <div class={group.tone} key={group.key}>
          <span><span aria-hidden="true">⚠ </span>{group.text}</span>
          <span class="small">{group.names.join(", ")}</span>
          {group.kind && (group.kind === "stop" || mayCommand.value) && (
            <span class="push">
              <button onClick={() => targets(group).forEach((target) => void command(group.kind!, target))}>
                {group.act}{group.names.length > 1 ? ` ${group.names.length}` : ""}
              </button>
            </span>
          )}
        </div>
      ))}
    </section>
  );
}

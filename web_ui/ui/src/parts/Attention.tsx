/** What needs a person, grouped by cause, each group with what may be done about it. */

import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import type { FleetDocument, Headline, Station, Verb } from "../types";

interface Cause { key: string; text: string; tone: string; verb?: Verb; act?: string; names: string[] }

/** The campaign and the stations that need a person, grouped by cause, each group with what may be done about it. */
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
  key: "campaign", text: `Paused: ${paused_why || "no station gets a new order"}`, tone: "", verb: "continue campaign", act: "Continue", names: [name],
});

function causeOf(station: Station): Omit<Cause, "names"> | undefined {
  if (station.alarm) return { key: station.alarm, text: station.alarm, tone: "", verb: "pause", act: "Pause" };
  if (station.phase === "fault") return { key: "fault", text: "A fault holds the robot", tone: "bad", verb: "stop", act: "Stop" };
  if (station.phase === "offline") return { key: "offline", text: "Not heard from", tone: "bad" };
  if (station.stopped || station.phase === "stopped") return { key: "stopped", text: "Stopped: stays so until resumed", tone: "bad", verb: "resume", act: "Resume" };
  if (station.paused) return { key: "paused", text: "Paused: takes no new orders", tone: "", verb: "resume", act: "Resume" };
  if (station.phase === "wait-person") return { key: "person", text: "Waits for a person", tone: "" };
  return undefined;
}

/** Whom a group's button is for; what concerns the campaign names nobody. */
const targets = ({ verb, names }: Cause) => (verb === "continue campaign" ? [""] : names);

export function Attention({ now }: { now: FleetDocument }) {
  const groups = causes(now);
  if (stale.value) return null; // the frame of the page says so
  if (!groups.length) return !Object.keys(now.stations).length ? null : <span class="calm-line"><span aria-hidden="true">✓</span> Nothing needs you.</span>;
  return (
    <section class="attention" aria-label="Needs attention">
      {groups.map((group) => (
        <div class={group.tone} key={group.key}>
          <span><span aria-hidden="true">⚠ </span>{group.text}</span>
          <span class="small">{group.names.join(", ")}</span>
          {group.verb && (group.verb === "stop" || mayCommand.value) && (
            <span class="push">
              <button onClick={() => targets(group).forEach((target) => void command(group.verb!, target))}>
                {group.act}{group.names.length > 1 ? ` ${group.names.length}` : ""}
              </button>
            </span>
          )}
        </div>
      ))}
    </section>
  );
}

/** What needs a person, grouped by cause, each group with what may be done about it. */

import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import type { Station, Verb } from "../types";

interface Cause { key: string; text: string; tone: string; verb?: Verb; act?: string; names: string[] }

/** Stations that need a person, grouped by cause, each group with what may be done about it. */
export function causes(stations: Station[]): Cause[] {
  const found = new Map<string, Cause>();
  for (const station of stations) {
    const cause = causeOf(station);
    if (!cause) continue;
    const group = found.get(cause.key) ?? { ...cause, names: [] };
    group.names.push(station.name);
    found.set(cause.key, group);
  }
  return [...found.values()];
}

function causeOf(station: Station): Omit<Cause, "names"> | undefined {
  if (station.alarm) return { key: station.alarm, text: station.alarm, tone: "", verb: "pause", act: "Pause" };
  if (station.phase === "fault") return { key: "fault", text: "A fault holds the robot", tone: "bad", verb: "stop", act: "Stop" };
  if (station.phase === "offline") return { key: "offline", text: "Not heard from", tone: "bad" };
  if (station.stopped || station.phase === "stopped") return { key: "stopped", text: "Stopped: stays so until resumed", tone: "bad", verb: "resume", act: "Resume" };
  if (station.phase === "wait-person") return { key: "person", text: "Waits for a person", tone: "" };
  if (station.paused) return { key: "paused", text: "Paused: takes no new orders", tone: "", verb: "resume", act: "Resume" };
  return undefined;
}

export function Attention({ stations }: { stations: Station[] }) {
  const groups = causes(stations);
  if (!stations.length) return null;
  if (stale.value) return null; // the frame of the page says so
  if (!groups.length) return <span class="calm-line"><span aria-hidden="true">✓</span> Nothing needs you.</span>;
  return (
    <section class="attention" aria-label="Needs attention">
      {groups.map((group) => (
        <div class={group.tone} key={group.key}>
          <span><span aria-hidden="true">⚠ </span>{group.text}</span>
          <span class="small">{group.names.join(", ")}</span>
          {group.verb && (group.verb === "stop" || mayCommand.value) && (
            <span class="push">
              <button onClick={() => group.names.forEach((name) => void command(group.verb!, name))}>
                {group.act}{group.names.length > 1 ? ` ${group.names.length}` : ""}
              </button>
            </span>
          )}
        </div>
      ))}
    </section>
  );
}

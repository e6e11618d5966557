/** The dense wall: one line for each station, those that need an operator first. Tiles are for fewer stations. */

import { signal } from "@preact/signals";
import { stale } from "../clock";
import { short, whole } from "../format";
import type { Station } from "../types";
import { lastKnown, stationWord } from "../words";
import { Pill, Verdicts } from "./Pieces";
import { Th } from "./Terms";
import { Clock } from "./Tile";

/** With more stations than this, the wall is shown unless an operator chose the tiles. */
const MOST_TILES = 24;
/** Lines that are drawn at once; the rest follows on request. */
const MOST_LINES = 200;
type Density = "auto" | "tiles" | "wall";
type Grouping = "need" | "phase" | "version" | "none";

const density = signal<Density>((localStorage.getItem("enpire-density") as Density) ?? "auto");
const grouping = signal<Grouping>("need");
const drawn = signal(MOST_LINES);
export const isDense = (stations: number): boolean => density.value === "wall" || (density.value === "auto" && stations > MOST_TILES);

export function WallSwitch({ stations }: { stations: number }) {
  const dense = isDense(stations);
  const set = () => {
    density.value = dense ? "tiles" : "wall";
    localStorage.setItem("enpire-density", density.value);
  };
  return (
    <>
      {dense && (
        <label class="check small">Group by
          <select value={grouping.value} onChange={(event) => (grouping.value = event.currentTarget.value as Grouping)}>
            <option value="need">need</option><option value="phase">phase</option><option value="version">policy version</option><option value="none">nothing</option>
          </select>
        </label>
      )}
      <button class="quiet" aria-pressed={dense} onClick={set}>{dense ? "Show tiles" : "Show the dense wall"}</button>
    </>
  );
}

const TONES = ["bad", "warn", "busy", "ok", "calm"];
/** 0 for what needs an operator most. */
function need(station: Station): number {
  const tone = stationWord(station).tone;
  return tone === "bad" ? 0 : station.alarm ? 1 : tone === "warn" || station.paused ? 2 : 3;
}
const NEEDS = ["Stopped, faults and offline", "Alarms", "Waiting for an operator, or paused", "Working"];

function groupOf(station: Station): string {
  if (grouping.value === "need") return NEEDS[need(station)]!;
  if (grouping.value === "phase") return stationWord(station).word;
  return grouping.value === "version" ? short(station.deployed) : "";
}

export function Wall({ stations, chosen, toggle }: { stations: Station[]; chosen: ReadonlySet<string>; toggle: (name: string) => void }) {
  const tone = (one: Station) => TONES.indexOf(stationWord(one).tone);
  const sorted = [...stations].sort((a, b) => need(a) - need(b) || (need(a) < 3 ? tone(a) - tone(b) : 0)); // stable: then by name
  const groups = new Map<string, Station[]>();
  for (const station of sorted) {
    const name = groupOf(station);
    groups.set(name, [...(groups.get(name) ?? []), station]);
  }
  let left = drawn.value;
  return (
    <div class="card flush scroll wall">
      <table>
        <thead>
          <tr>
            <th><span class="visually-hidden">Select</span></th><th>Station</th><th>Phase</th><Th of="In phase" />
            <th title="Outcomes of its last episodes, the newest on the right">Last verdicts</th><Th of="Episodes that ended">Episodes</Th>
            <Th of="Per min" /><th>Needs</th>
          </tr>
        </thead>
        {[...groups].map(([name, members]) => {
          const shown = members.slice(0, Math.max(0, left));
          left -= shown.length;
          if (!shown.length) return null;
          return (
            <tbody key={name}>
              {name && <tr class="group"><th colSpan={8} scope="rowgroup">{name} <span class="faint">{members.length}</span></th></tr>}
              {shown.map((one) => <Line key={one.name} of={one} chosen={chosen.has(one.name)} toggle={toggle} />)}
            </tbody>
          );
        })}
      </table>
      {stations.length > drawn.value && (
        <p class="acts" style={{ padding: "0.6rem" }}><span class="soft small">{drawn.value} of {whole(stations.length)} stations</span><button onClick={() => (drawn.value += MOST_LINES)}>Show {Math.min(MOST_LINES, stations.length - drawn.value)} more</button></p>
      )}
    </div>
  );
}

function Line({ of, chosen, toggle }: { of: Station; chosen: boolean; toggle: (name: string) => void }) {
  const old = stale.value;
  return (
    <tr data-station={of.name} class={chosen ? "on" : ""}>
      <td><input type="checkbox" checked={chosen} onChange={() => toggle(of.name)} aria-label={`Select ${of.name}`} /></td>
      <td class="nowrap"><a href={`/stations/${encodeURIComponent(of.name)}`}>{of.name}</a></td>
      <td><Pill of={old ? lastKnown(stationWord(of)) : stationWord(of)} /></td>
      <td class="right"><Clock station={of} bare /></td>
      <td><Verdicts letters={of.verdicts} /></td>
      <td class="right">{whole(of.episodes)}</td>
      <td class="right">{of.episodes_per_min.toFixed(0)}</td>
      <td class="cut" title={of.alarm}>{of.alarm && `⚠ ${of.alarm}`}</td>
    </tr>
  );
}

/** One station: what it does, for how long, how it did lately; and what may be asked of it. */

import { useEffect } from "preact/hooks";
import { since } from "../clock";
import { command } from "../command";
import { short, whole } from "../format";
import { mayCommand } from "../session";
import { leave, picture } from "../socket";
import type { Station } from "../types";
import { phaseWord } from "../words";
import { Pill, Verdicts } from "./Pieces";

interface Limits { slow: number; stuck: number }
/** Seconds after which a phase looks slow, then stuck; lanes step together, so a moving phase changes often. */
const LIMITS: Record<string, Limits> = {
  reset: { slow: 30, stuck: 90 },
  verify: { slow: 10, stuck: 30 },
  "wait-order": { slow: 30, stuck: 120 },
  "wait-person": { slow: 60, stuck: 600 },
  offline: { slow: 2, stuck: 10 },
};

export function Tile({ station, chosen, toggle }: { station: Station; chosen: boolean; toggle: (name: string) => void }) {
  const word = phaseWord(station.phase);
  return (
    <article class={`card tile ${chosen ? "chosen" : ""}`} data-tone={station.alarm ? "warn" : word.tone} data-station={station.name}>
      <header>
        <input type="checkbox" checked={chosen} onChange={() => toggle(station.name)} aria-label={`Choose ${station.name}`} />
        <h3>{station.name}</h3>
        <Pill of={word} />
      </header>
      {station.cameras?.[0] && <Thumbnail station={station.name} camera={station.cameras[0]} />}
      <Verdicts letters={station.verdicts} />
      <div class="state">
        <div class="facts">
          <span><b>{whole(station.episodes)}</b> episodes</span>
          <span><b>{station.episodes_per_min.toFixed(0)}</b> / min</span>
          <span><b>{station.lanes}</b> {station.lanes === 1 ? "robot" : "lanes"}</span>
        </div>
        <Clock station={station} />
      </div>
      {station.alarm && <p class="alarm" role="alert">⚠ {station.alarm}</p>}
      <footer>
        {mayCommand.value && (station.stopped || station.paused) && (
          <button onClick={() => void command("resume", station.name)} aria-label={`Resume ${station.name}`}>▶ Resume</button>
        )}
        {mayCommand.value && !station.stopped && !station.paused && (
          <button onClick={() => void command("pause", station.name)} aria-label={`Pause ${station.name}`}>‖ Pause</button>
        )}
        <button onClick={() => void command("stop", station.name)} disabled={station.stopped} aria-label={`Stop ${station.name}`}>■ Stop</button>
        <span class="faint small mono" style={{ alignSelf: "center" }} title={`runs the version ${station.deployed}`}>
          {station.deployed ? short(station.deployed) : ""}
        </span>
      </footer>
    </article>
  );
}

function Clock({ station }: { station: Station }) {
  const spent = since(station.since_ms);
  const limits = LIMITS[station.phase];
  const tone = !limits ? "" : spent > limits.stuck ? "stuck" : spent > limits.slow ? "slow" : "";
  return <span class={`clock ${tone}`} title="time in this phase">{spent < 100 ? spent.toFixed(0) : whole(Math.round(spent))} s</span>;
}

function Thumbnail({ station, camera }: { station: string; camera: string }) {
  const shown = picture(station, camera);
  useEffect(() => () => leave(`camera/${station}/${camera}`), [station, camera]);
  return shown.value ? <img src={shown.value} alt={`${station}, camera ${camera}, now`} /> : null;
}

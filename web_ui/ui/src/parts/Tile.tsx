/** One station: its phase and duration, its last verdicts, and its commands. */

import { signal, useComputed } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { now, since, stale } from "../clock";
import { command } from "../command";
import { seconds, short, whole } from "../format";
import { mayCommand } from "../session";
import { fleet, leave, picture } from "../socket";
import { TERMS } from "../terms";
import type { Station } from "../types";
import { stationWord } from "../words";
import { Pill, Verdicts } from "./Pieces";
import { defined } from "./Terms";

/** Seconds after which a phase is marked slow, and stuck, before this lab's own percentiles are known. */
const ASSUMED: Record<string, [number, number]> = {
  rollout: [60, 180], reset: [30, 90], verify: [10, 30], "wait-order": [30, 120], "wait-person": [60, 600], offline: [2, 10],
};
const MOVING = new Set(["rollout", "reset", "verify"]);
/** No phase is marked slow before this time, in seconds. */
const FLOOR_S = 5;

export function Tile({ station, chosen, toggle }: { station: Station; chosen: boolean; toggle: (name: string) => void }) {
  const word = stationWord(station);
  return (
    <article class={`card tile ${chosen ? "chosen" : ""}`} data-tone={station.alarm ? "warn" : word.tone} data-station={station.name}>
      <header>
        <input type="checkbox" checked={chosen} onChange={() => toggle(station.name)} aria-label={`Select ${station.name}`} />
        <h3><a href={`/stations/${encodeURIComponent(station.name)}`}>{station.name}</a></h3>
        <Pill of={word} />
      </header>
      {station.cameras[0] && showPictures.value && <Thumbnail station={station.name} camera={station.cameras[0]} />}
      <Verdicts letters={station.verdicts} />
      <div class="facts">
        <span {...defined("Episodes that ended")}><b>{whole(station.episodes)}</b> episodes</span>
        <span {...defined("Per min")}><b>{station.episodes_per_min.toFixed(0)}</b> per min</span>
        <span {...defined("Robots")}><b>{station.lanes}</b> {station.lanes === 1 ? "robot" : "robots"}</span>
        <Clock station={station} />
      </div>
      {station.alarm && <p class="alarm" role="alert">⚠ {station.alarm}</p>}
      <footer>
        {mayCommand.value && (station.stopped || (station.paused && !station.service_by)) && (
          <button disabled={stale.value} onClick={() => void command("resume", station.name)} aria-label={`Resume ${station.name}`}>▶ Resume</button>
        )}
        {mayCommand.value && !station.stopped && !station.paused && (
          <button disabled={stale.value} onClick={() => void command("pause", station.name)} aria-label={`Pause ${station.name}`}>‖ Pause</button>
        )}
        <button class="stop" onClick={() => void command("stop", station.name)} aria-label={`Stop ${station.name}`}>■ Stop</button>
        <span class="faint small mono" style={{ alignSelf: "center" }} title={`policy version ${station.deployed}`}>
          {station.deployed ? short(station.deployed) : ""}
        </span>
      </footer>
    </article>
  );
}

/** Whether robots of the station take turns in its phase: then the time in it says nothing about any of them. */
export const inTurn = ({ lanes, phase }: Station): boolean => lanes > 1 && MOVING.has(phase);

/** `bare`: in a column that says what it is. */
export function Clock({ station, bare }: { station: Station; bare?: boolean }) {
  const spent = since(station.since_ms);
  const known = fleet.value?.usual[station.phase];
  const [slow, stuck] = known ?? ASSUMED[station.phase] ?? [Infinity, Infinity];
  if (inTurn(station)) return <span class="clock">{bare && "–"}</span>;
  const tone = spent < FLOOR_S ? "" : spent > stuck ? "stuck" : spent > slow ? "slow" : "";
  return <span class={`clock ${tone}`} data-term="In phase" title={!tone ? TERMS["In phase"] : known ? `longer than ${tone === "stuck" ? 99 : 95} % of the earlier times in this phase` : "longer than the default limit of this phase"}><b>{spent < 1000 ? `${spent.toFixed(0)} s` : seconds(spent).replace(/ \d\d s$/, "")}</b>{!bare && " in phase"}</span>;
}

/** Whether tiles show live images; the browser remembers it. */
export const showPictures = signal(localStorage.getItem("enpire-pictures") !== "off");

export function togglePictures(): void {
  showPictures.value = !showPictures.value;
  localStorage.setItem("enpire-pictures", showPictures.value ? "on" : "off");
}

/** Age in seconds from which a live image is shown as old; stations send up to two a second. */
const OLD_PICTURE_S = 3;

/** A box of fixed size that requests live images only while it is visible. */
export function Thumbnail({ station, camera }: { station: string; camera: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, see] = useState(false);
  useEffect(() => {
    let near = false;
    const look = () => see(near && !document.hidden);
    const watcher = new IntersectionObserver(([entry]) => {
      near = entry!.isIntersecting;
      look();
    });
    watcher.observe(box.current!);
    document.addEventListener("visibilitychange", look);
    return () => {
      watcher.disconnect();
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return <div class="picture" ref={box}>{seen && <Picture station={station} camera={camera} />}</div>;
}

function Picture({ station, camera }: { station: string; camera: string }) {
  const { shown, why } = useMemo(() => picture(station, camera), [station, camera]);
  useEffect(() => () => leave(`camera/${station}/${camera}`), [station, camera]);
  const old = useComputed(() => (shown.value ? Math.floor((now.value - shown.value.at) / 1000) : 0)).value;
  if (why.value?.why) return <p class="faint small">{why.value.why}</p>;
  if (!shown.value) return <p class="faint small">waiting for an image of camera {camera}</p>;
  const late = old >= OLD_PICTURE_S;
  return (
    <>
      <img class={late ? "old" : ""} src={shown.value.address} alt={`${station}, camera ${camera}, ${late ? `${old} s ago` : "now"}`} />
      {late && <span class="age num">last image {old} s ago</span>}
    </>
  );
}

/** One episode on its time axis: camera images, critic outputs, states and actions. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { query, tune } from "../router";
import { meaning } from "../terms";
import type { Curve, EpisodeView, Series } from "../types";
import { Chart, LEFT, type Line, RIGHT } from "./Chart";
import { Clip } from "./Clip";
import { Paths } from "./Path";
import { Videos } from "./Videos";
import { useKeys } from "./useKeys";

const TONES = ["accent", "ok", "warn", "bad", "soft", "faint"];

interface Shared { x: number[]; at: number; onPick: (to: number) => void; xLabel: (value: number) => string }

export function Viewer({ id, series, view, again }: { id: string; series: Series; view: EpisodeView; again: () => void }) {
  const last = series.frames - 1;
  const rate = series.rate_hz ?? 1;
  const tick = Math.round(Math.max(0, Math.min(last, moment(query.value.get("t")) * rate)));
  const seek = (to: number) => tune({ t: String(+(Math.max(0, Math.min(last, Math.round(to))) / rate).toFixed(3)) });
  const [playing, play] = useReplay(series, tick, seek);
  useKeys((event) => {
    if (event.key === " " && event.target instanceof HTMLButtonElement) return;
    const step = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowRight") seek(tick + step);
    else if (event.key === "ArrowLeft") seek(tick - step);
    else if (event.key === "Home") seek(0);
    else if (event.key === "End") seek(last);
    else if (event.key === " ") play(!playing);
    else return;
    event.preventDefault();
  });

  const at = tick / rate;
  const x = useMemo(() => series.tick.map((frame) => frame / rate), [series]);
  const shown = nearest(series.tick, tick);
  const unit = series.rate_hz ? "s" : "frames";
  const shared: Shared = { x, at, onPick: (to) => seek(to * rate), xLabel: (value) => `${+value.toFixed(2)} ${unit}` };
  return (
    <>
      <Clip id={id} again={again} names={view.pictures} tick={tick} seek={seek} last={last} />
      <Videos id={id} at={at} seek={(to) => seek(to * rate)} />
      <section class="card">
        <div class="body timeline">
          <div class="transport">
            <button onClick={() => play(!playing)} aria-label={playing ? "Pause the replay" : "Replay"}>{playing ? "‖" : "▶"}</button>
            <span class="num">{at.toFixed(2)} of {(last / rate).toFixed(2)} {unit} <span class="faint">· frame {tick}</span></span>
            <span class="faint small push optional"><kbd>←</kbd> <kbd>→</kbd> one frame · with <kbd>⇧</kbd> ten frames · <kbd>Space</kbd> replays</span>
          </div>
          <div style={{ margin: `0 ${RIGHT}px 0 ${LEFT}px`, display: "grid", gap: "0.45rem" }}>
            <input type="range" min={0} max={last} value={tick} aria-label="Time in the episode" onInput={(event) => seek(Number(event.currentTarget.value))} />
            <Segments series={series} tick={tick} seek={seek} />
          </div>
          {series.figures.map((curve, index) => (
            <CriticPlot key={curve.name} curve={curve} tone={TONES[index] ?? "accent"} shown={shown} shared={shared} bare={index < series.figures.length - 1} />
          ))}
          {!series.figures.length && <span class="faint small" style={{ marginLeft: `${LEFT}px` }}>No critic outputs for this episode. p_v, V_e and g are computed for the episodes that a candidate is trained on.</span>}
        </div>
      </section>
      <Paths series={series} shown={shown} />
      <Plot title="State" curves={series.state} shown={shown} shared={shared} />
      <Plot title="Action" curves={series.action} shown={shown} shared={shared} />
    </>
  );
}

/** Play at the task's rate from the shown frame, or from the first when the last is shown. */
function useReplay(series: Series, tick: number, seek: (to: number) => void): [boolean, (on: boolean) => void] {
  const [playing, play] = useState(false);
  useEffect(() => {
    if (!playing) return;
    const last = series.frames - 1, began = performance.now(), from = tick >= last ? 0 : tick;
    const timer = setInterval(() => {
      const next = from + ((performance.now() - began) / 1000) * (series.rate_hz ?? 20);
      if (next >= last) play(false);
      seek(next);
    }, 50);
    return () => clearInterval(timer);
  }, [playing]);
  return [playing, play];
}

/** Seconds of `?t=`; 0 where the address has no number. */
function moment(text: string | null): number {
  const found = Number(text ?? 0);
  return Number.isFinite(found) ? found : 0;
}

/** Index of the last shown frame at or before a tick. */
function nearest(ticks: number[], tick: number): number {
  let low = 0, high = ticks.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (ticks[middle]! <= tick) low = middle;
    else high = middle - 1;
  }
  return low;
}

function Segments({ series, tick, seek }: { series: Series; tick: number; seek: (to: number) => void }) {
  const last = Math.max(1, series.frames - 1);
  const put = (frame: number) => `${(100 * Math.min(frame, last)) / last}%`;
  const onClick = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    seek(((event.clientX - box.left) / box.width) * last);
  };
  return (
    <div class="segments" onClick={onClick} role="img" aria-label={series.segments.map((one) => `${one.source} ${one.first} to ${one.last}`).join(", ")}>
      {series.segments.map((one) => (
        <i class={one.source} style={{ left: put(one.first), width: `${(100 * (one.last - one.first + 1)) / last}%` }}>{one.source}</i>
      ))}
      {series.events.map((one) => <u style={{ left: put(one.tick) }} title={one.name} />)}
      <s style={{ left: put(tick) }} />
    </div>
  );
}

const MEANING: Record<string, string> = {
  p_v: "success probability", V_e: "remaining decisions (negative)", g: "training weight (1 is neutral)",
};

interface CriticProps { curve: Curve; tone: string; shown: number; shared: Shared; bare: boolean }

function CriticPlot({ curve, tone, shown, shared, bare }: CriticProps) {
  const lines = useMemo((): Line[] => [{ name: curve.name, tone, values: curve.values, stepped: true }], [curve]);
  const range: [number, number] | undefined = curve.name === "p_v" ? [0, 1] : curve.name === "g" ? [0, 2] : undefined;
  const value = curve.values[shown];
  return (
    <div>
      <div class="legend" style={{ marginLeft: `${LEFT}px` }}>
        <span title={meaning(curve.name)} data-term={curve.name}><i style={{ background: `var(--${tone})` }} /><b>{curve.name}</b> {MEANING[curve.name] ?? ""} <b>{value === null || value === undefined ? "–" : value.toFixed(2)}</b></span>
      </div>
      <Chart {...shared} lines={lines} height={bare ? 84 : 110} range={range} bare={bare} label={`${curve.name} over time`} />
    </div>
  );
}

function Plot({ title, curves, shown, shared }: { title: string; curves: Curve[]; shown: number; shared: Shared }) {
  const groups = useMemo(() => byUnit(curves), [curves]);
  return (
    <section class="card">
      <header><h2>{title}</h2></header>
      <div class="body plots">
        {groups.map(([unit, members]) => <Group key={unit} unit={unit} members={members} shown={shown} shared={shared} title={title} />)}
      </div>
    </section>
  );
}

function Group({ unit, members, shown, shared, title }: { unit: string; members: Curve[]; shown: number; shared: Shared; title: string }) {
  const lines = useMemo((): Line[] => members.map((one, index) => ({ name: one.name, tone: TONES[index % TONES.length]!, values: one.values })), [members]);
  return (
    <div>
      <div class="legend">
        {members.map((one, index) => {
          const value = one.values[shown];
          return <span><i style={{ background: `var(--${TONES[index % TONES.length]})` }} />{one.name} <b>{value === null || value === undefined ? "–" : +value.toPrecision(3)}</b> {unit === "1" ? "" : unit}</span>;
        })}
      </div>
      <Chart {...shared} lines={lines} height={130} label={`${title}: ${members.map((one) => one.name).join(", ")} over time`} />
    </div>
  );
}

function byUnit(curves: Curve[]): [string, Curve[]][] {
  const groups = new Map<string, Curve[]>();
  for (const curve of curves) groups.set(curve.unit, [...(groups.get(curve.unit) ?? []), curve]);
  return [...groups];
}

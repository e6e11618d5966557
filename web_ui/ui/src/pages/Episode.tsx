/** One episode on one time axis: pictures, what the critics thought, what was sensed and sent. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api";
import { percent, seconds, short } from "../format";
import { Chart, type Line } from "../parts/Chart";
import { Paths } from "../parts/Path";
import { Failed, Pill } from "../parts/Pieces";
import { useGet } from "../parts/use";
import { go, query, tune } from "../router";
import type { Curve, EpisodePage as Page, EpisodeView, Series } from "../types";
import { outcomeWord, PURPOSES } from "../words";

const TONES = ["accent", "ok", "warn", "bad", "soft", "faint"];

export function EpisodePage({ id }: { id: string }) {
  const view = useGet<EpisodeView>(`/episodes/${id}`);
  const series = useGet<Series>(`/episodes/${id}/series?points=1500`);
  useOlder(id, view.value?.episode.campaign_id ?? "");
  if (view.problem) return <main><Failed sentence={view.problem} /></main>;
  if (!view.value) return <main />;
  const line = view.value.episode;
  return (
    <main>
      <div class="head">
        <a href={listOf(line.campaign_id)}>← Episodes</a>
        <h1 class="mono" style={{ fontSize: "1.15rem" }}>{line.order_id}</h1>
        <Pill of={outcomeWord(line.outcome)} />
        <span class="soft">{line.cause}</span>
        <span class="soft small push"><kbd>n</kbd> the next older one</span>
      </div>
      {series.value && series.value.frames > 0 ? <Viewer id={id} series={series.value} view={view.value} /> : null}
      {series.problem && <div class="notice warn">{series.problem}</div>}
      <Facts view={view.value} />
    </main>
  );
}

const FILTERS = ["outcome", "purpose", "round", "station", "policy"];

/** The filters of the list that led here, which the address carries along. */
function filters(campaign: string): URLSearchParams {
  const kept = new URLSearchParams({ campaign });
  for (const name of FILTERS) {
    const value = query.value.get(name);
    if (value) kept.set(name, value);
  }
  return kept;
}

const listOf = (campaign: string) => `/episodes?${filters(campaign)}`;

/** `n` opens the next older episode of the same list. */
function useOlder(id: string, campaign: string): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "n" || event.ctrlKey || event.metaKey || !campaign) return;
      const kept = filters(campaign);
      void get<Page>(`/episodes?${kept}&limit=1&before=${id}`).then((page) => {
        const older = page.rows[0];
        kept.delete("campaign");
        if (older) go(`/episodes/${older.order_id}?${kept}`);
      });
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [id, campaign]);
}

function Viewer({ id, series, view }: { id: string; series: Series; view: EpisodeView }) {
  const last = series.frames - 1;
  const rate = series.rate_hz ?? 1;
  const [playing, play] = useState(false);
  const tick = Math.round(Math.max(0, Math.min(last, Number(query.value.get("t") ?? 0) * rate)));
  const seek = (to: number) => tune({ t: String(+(Math.max(0, Math.min(last, Math.round(to))) / rate).toFixed(3)) });

  useEffect(() => {
    if (!playing) return;
    const began = performance.now(), from = tick >= last ? 0 : tick;
    const timer = setInterval(() => {
      const next = from + ((performance.now() - began) / 1000) * (series.rate_hz ?? 20);
      if (next >= last) play(false);
      seek(next);
    }, 50);
    return () => clearInterval(timer);
  }, [playing]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey) return;
      const step = event.shiftKey ? 10 : 1;
      if (event.key === "ArrowRight") seek(tick + step);
      else if (event.key === "ArrowLeft") seek(tick - step);
      else if (event.key === "Home") seek(0);
      else if (event.key === "End") seek(last);
      else if (event.key === " ") play((now) => !now);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

  const at = tick / rate;
  const x = useMemo(() => series.tick.map((frame) => frame / rate), [series]);
  const shown = nearest(series.tick, tick);
  const unit = series.rate_hz ? "s" : "frames";
  const common = { x, at, onPick: (to: number) => seek(to * rate), xLabel: (value: number) => `${+value.toFixed(2)} ${unit}` };
  return (
    <>
      <Pictures id={id} names={view.pictures} tick={tick} />
      <section class="card">
        <div class="body" style={{ display: "grid", gap: "0.8rem" }}>
          <div class="transport">
            <button onClick={() => play(!playing)} aria-label={playing ? "Pause the replay" : "Replay"}>{playing ? "‖" : "▶"}</button>
            <input type="range" min={0} max={last} value={tick} aria-label="Moment of the episode" onInput={(event) => seek(Number(event.currentTarget.value))} />
            <span class="num soft">{at.toFixed(2)} of {(last / rate).toFixed(2)} {unit} · frame {tick}</span>
          </div>
          <Segments series={series} tick={tick} seek={seek} />
          <span class="faint small"><kbd>←</kbd> <kbd>→</kbd> one frame · <kbd>⇧</kbd> ten · <kbd>Space</kbd> replays · the address keeps the moment</span>
        </div>
      </section>
      <Paths series={series} shown={shown} />
      {series.figures.length > 0 && <Figures series={series} shown={shown} common={common} />}
      <Plot title="Sensed" curves={series.state} shown={shown} common={common} />
      <Plot title="Sent" curves={series.action} shown={shown} common={common} />
    </>
  );
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
  const put = (frame: number) => `${(100 * frame) / series.frames}%`;
  const onClick = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    seek(((event.clientX - box.left) / box.width) * series.frames);
  };
  return (
    <div class="segments" onClick={onClick} role="img" aria-label={series.segments.map((one) => `${one.source} ${one.first} to ${one.last}`).join(", ")}>
      {series.segments.map((one) => (
        <i class={one.source} style={{ left: put(one.first), width: put(one.last - one.first + 1) }}>{one.source}</i>
      ))}
      {series.events.map((one) => <u style={{ left: put(one.tick) }} title={one.name} />)}
      <s style={{ left: put(tick) }} />
    </div>
  );
}

interface PlotProps { series: Series; shown: number; common: { x: number[]; at: number; onPick: (to: number) => void; xLabel: (value: number) => string } }

const MEANING: Record<string, string> = { p_v: "probability of success", V_e: "decisions to success", g: "weight in training" };

function Figures({ series, shown, common }: PlotProps) {
  return (
    <div class="columns" style={{ gridTemplateColumns: `repeat(auto-fit, minmax(280px, 1fr))` }}>
      {series.figures.map((curve, index) => (
        <FigurePlot key={curve.name} curve={curve} tone={TONES[index] ?? "accent"} shown={shown} common={common} />
      ))}
    </div>
  );
}

function FigurePlot({ curve, tone, shown, common }: { curve: Curve; tone: string; shown: number; common: PlotProps["common"] }) {
  const lines = useMemo((): Line[] => [{ name: curve.name, tone, values: curve.values }], [curve]);
  const range: [number, number] | undefined = curve.name === "p_v" ? [0, 1] : curve.name === "g" ? [0, 2] : undefined;
  const value = curve.values[shown];
  return (
    <section class="card">
      <header><h2>{curve.name}</h2><span class="soft small">{MEANING[curve.name] ?? ""}</span><b class="num push">{value === null || value === undefined ? "–" : value.toFixed(2)}</b></header>
      <div class="body"><Chart {...common} lines={lines} height={140} range={range} label={`${curve.name} over time`} /></div>
    </section>
  );
}

function Plot({ title, curves, shown, common }: { title: string; curves: Curve[]; shown: number; common: PlotProps["common"] }) {
  const groups = useMemo(() => byUnit(curves), [curves]);
  return (
    <section class="card">
      <header><h2>{title}</h2></header>
      <div class="body" style={{ display: "grid", gap: "1rem" }}>
        {groups.map(([unit, members]) => <Group key={unit} unit={unit} members={members} shown={shown} common={common} title={title} />)}
      </div>
    </section>
  );
}

function Group({ unit, members, shown, common, title }: { unit: string; members: Curve[]; shown: number; common: PlotProps["common"]; title: string }) {
  const lines = useMemo((): Line[] => members.map((one, index) => ({ name: one.name, tone: TONES[index % TONES.length]!, values: one.values })), [members]);
  return (
    <div>
      <div class="legend">
        {members.map((one, index) => {
          const value = one.values[shown];
          return <span><i style={{ background: `var(--${TONES[index % TONES.length]})` }} />{one.name} <b>{value === null || value === undefined ? "–" : +value.toPrecision(3)}</b> {unit === "1" ? "" : unit}</span>;
        })}
      </div>
      <Chart {...common} lines={lines} height={170} label={`${title}: ${members.map((one) => one.name).join(", ")} over time`} />
    </div>
  );
}

function byUnit(curves: Curve[]): [string, Curve[]][] {
  const groups = new Map<string, Curve[]>();
  for (const curve of curves) groups.set(curve.unit, [...(groups.get(curve.unit) ?? []), curve]);
  return [...groups];
}

/** For each camera the newest picture at or before the moment shown; names are CAMERA_TICK.jpg. */
function Pictures({ id, names, tick }: { id: string; names: string[]; tick: number }) {
  const cameras = useMemo(() => {
    const found = new Map<string, { tick: number; name: string }[]>();
    for (const name of names) {
      const match = /^(.+)_(\d+)\.jpg$/.exec(name);
      if (match) found.set(match[1]!, [...(found.get(match[1]!) ?? []), { tick: Number(match[2]), name }]);
    }
    for (const list of found.values()) list.sort((a, b) => a.tick - b.tick);
    return [...found];
  }, [names]);
  if (!cameras.length) return null;
  return (
    <div class="pictures">
      {cameras.map(([camera, list]) => {
        const shown = list.filter((one) => one.tick <= tick).at(-1) ?? list[0]!;
        return <figure key={camera}><img src={`/api/v1/episodes/${id}/pictures/${shown.name}`} alt={`${camera} at frame ${shown.tick}`} /><figcaption>{camera}, frame {shown.tick}</figcaption></figure>;
      })}
    </div>
  );
}

function Facts({ view }: { view: EpisodeView }) {
  const line = view.episode;
  const rows: [string, string][] = [
    ["Purpose", `${PURPOSES[line.purpose] ?? line.purpose}, round ${line.round}${line.side ? `, ${line.side} of pair ${line.pair}` : ""}`],
    ["Start", `${view.start_split} ${view.start_index}`],
    ["Station", line.station],
    ["Policy ordered", short(line.policy_id)],
    ["Policy run", view.ran_policy_id ? (view.ran_policy_id === line.policy_id ? "the same" : short(view.ran_policy_id)) : "–"],
    ["Verdict", line.confidence ? `${outcomeWord(line.outcome).word}, confidence ${percent(line.confidence)}` : outcomeWord(line.outcome).word],
    ["Duration", `${seconds(view.seconds)} on the station's clock, ${line.ticks} ticks`],
    ["Reset attempts", String(view.reset_attempts)],
    ["Clipped commands", String(view.clipped)],
    ["SHA-256 of the arrays", view.sha256 || "–"],
  ];
  return (
    <section class="card">
      <header><h2>Record</h2></header>
      <div class="body"><dl class="pairs">{rows.map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl></div>
    </section>
  );
}

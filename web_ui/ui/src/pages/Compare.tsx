/** Two episodes, or the two versions of a gate from the same start, side by side on one clock. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { short } from "../format";
import { Clip } from "../parts/Clip";
import { Empty, Failed, Pill } from "../parts/Pieces";
import { Th } from "../parts/Terms";
import { useGet } from "../parts/use";
import { query, tune } from "../router";
import type { EpisodeLine, EpisodeView, GatePair, Series } from "../types";
import { outcomeWord, PURPOSES } from "../words";

const FRAME_MS = 33;

export function ComparePage() {
  const gate = query.value.get("gate") ?? "";
  const pairs = useGet<GatePair[]>(gate ? `/gates/${encodeURIComponent(gate)}/pairs` : "");
  if (pairs.problem) return <main><Failed sentence={pairs.problem} /></main>;
  if (gate && !pairs.value) return <main><Empty title="Loading…" /></main>;
  const differing = (pairs.value ?? []).filter(differs);
  const wanted = Number(query.value.get("pair") ?? differing[0]?.pair ?? pairs.value?.[0]?.pair);
  const pair = pairs.value?.find((one) => one.pair === wanted);
  if (gate && !pair) return <main><Empty title={pairs.value?.length ? `This gate has no finished pair ${wanted}` : "This gate has no finished pair"}><a href="/campaigns">Go to the campaigns</a></Empty></main>;
  return <Two key={pair?.pair} ids={pair ? [pair.champion, pair.candidate] : [query.value.get("a") ?? "", query.value.get("b") ?? ""]} names={pair ? ["Champion", "Candidate"] : ["A", "B"]} pick={pair && <PairPick pair={pair} pairs={pairs.value!} />} />;
}

const differs = (one: GatePair): boolean => (one.champion_outcome === "success") !== (one.candidate_outcome === "success");

function resultText(one: GatePair): string {
  const won = one.candidate_outcome === "success";
  if (differs(one)) return won ? "the candidate won" : "the champion won";
  return won ? "both succeeded" : "both failed";
}

/** Moves from pair to pair of a gate; the arrows jump to pairs that one version won. */
function PairPick({ pair, pairs }: { pair: GatePair; pairs: GatePair[] }) {
  const other = pairs.filter(differs), to = (one: GatePair | undefined) => one && tune({ pair: String(one.pair) });
  const before = other.filter((one) => one.pair < pair.pair).at(-1), after = other.find((one) => one.pair > pair.pair);
  return (
    <span class="push acts" role="group" aria-label="Pairs of the gate">
      <button disabled={!before} onClick={() => to(before)} title="The pair before, of those that one version won">‹ Previous</button>
      <select aria-label="Pair" value={pair.pair} onChange={(event) => tune({ pair: event.currentTarget.value })}>
        {pairs.map((one) => <option key={one.pair} value={one.pair}>{`pair ${one.pair}: ${resultText(one)}`}</option>)}
      </select>
      <button disabled={!after} onClick={() => to(after)} title="The next pair, of those that one version won">Next ›</button>
    </span>
  );
}

interface TwoProps { ids: [string, string]; names: [string, string]; pick?: ComponentChildren }

function Two({ ids, names, pick }: TwoProps) {
  const left = useEpisode(ids[0]), right = useEpisode(ids[1]);
  const [at, seek] = useState(0);
  const [playing, play] = useState(false);
  const last = Math.max(left.last_s, right.last_s);
  useEffect(() => {
    if (!playing) return;
    const began = performance.now(), from = at >= last ? 0 : at;
    const timer = setInterval(() => {
      const next = from + (performance.now() - began) / 1000;
      if (next >= last) play(false);
      seek(Math.min(next, last));
    }, FRAME_MS);
    return () => clearInterval(timer);
  }, [playing]);
  const same = left.view && right.view && left.view.start_split === right.view.start_split && left.view.start_index === right.view.start_index && left.view.episode.campaign_id === right.view.episode.campaign_id;
  if (!ids[0] || !ids[1]) return <main><Empty title="Choose two episodes in the list, then Compare"><a href="/episodes">Go to the episodes</a></Empty></main>;
  return (
    <main>
      <div class="head"><a href="/episodes">← Episodes</a><h1>{pick ? "Two versions" : "Two episodes"}</h1>{left.view && right.view && <span class="soft">{same ? `from the same start (${left.view.start_split} ${left.view.start_index})` : "from different starts"}</span>}{pick}</div>
      <section class="card"><div class="body transport">
        <button onClick={() => play(!playing)} aria-label={playing ? "Pause" : "Play both"}>{playing ? "‖" : "▶"}</button>
        <input style={{ flex: 1 }} type="range" min={0} max={last || 1} step={0.01} value={at} aria-label="Time in both episodes" onInput={(event) => (play(false), seek(Number(event.currentTarget.value)))} />
        <span class="num">{at.toFixed(2)} of {last.toFixed(2)} s</span>
      </div></section>
      <div class="columns">
        <Side of={left} at={at} name={names[0]} seek={seek} /><Side of={right} at={at} name={names[1]} seek={seek} />
      </div>
    </main>
  );
}

interface Loaded { view: EpisodeView | undefined; series: Series | undefined; problem: string | undefined; rate: number; last_s: number; again: () => void }

function useEpisode(id: string): Loaded {
  const view = useGet<EpisodeView>(id ? `/episodes/${id}` : "");
  const series = useGet<Series>(id ? `/episodes/${id}/series?points=1500` : "");
  const rate = series.value?.rate_hz ?? 20;
  return { view: view.value, series: series.value, problem: view.problem ?? series.problem, rate, last_s: series.value ? (series.value.frames - 1) / rate : 0, again: view.again };
}

function Side({ of, at, name, seek }: { of: Loaded; at: number; name: string; seek: (to: number) => void }) {
  if (of.problem && !of.view) return <Failed sentence={of.problem} />;
  if (!of.view || (!of.series && !of.problem)) return <section class="card"><Empty title="Loading…" /></section>;
  const line = of.view.episode;
  if (!of.series) return <section class="card" role="group" aria-label={`Episode ${name}`}><div class="body pile"><Heading name={name} line={line} /><p class="soft small">{of.problem}</p></div></section>;
  const last = of.series.frames - 1;
  const tick = Math.max(0, Math.min(last, Math.round(at * of.rate)));
  const shown = Math.max(0, of.series.tick.filter((one) => one <= tick).length - 1);
  return (
    <div class="pile" role="group" aria-label={`Episode ${name}`}>
      <section class="card"><div class="body pile">
        <Heading name={name} line={line} />
        <p class="small soft">version <span class="mono">{short(line.policy_id)}</span>{line.side && `, ${line.side} of pair ${line.pair}`} · {PURPOSES[line.purpose] ?? line.purpose} · {line.station} · {line.ticks} periods{tick >= last ? " · ended" : ""}</p>
      </div></section>
      <Clip label={`Camera images of ${name}`} id={line.order_id} again={of.again} names={of.view.pictures} tick={tick} last={last} seek={(to) => seek(to / of.rate)} />
      <section class="card"><div class="body"><table><thead><tr><th>State</th><Th of="Now" /><Th of="Last" /></tr></thead><tbody>
        {of.series.state.map((one) => <tr key={one.name}><td>{one.name}</td><td class="right">{number(one.values[shown])}</td><td class="right soft">{number(one.values.at(-1))} {one.unit}</td></tr>)}
      </tbody></table></div></section>
    </div>
  );
}

const Heading = ({ name, line }: { name: string; line: EpisodeLine }) => (
  <p><b>{name}</b> <a class="mono" href={`/episodes/${line.order_id}`}>{line.order_id.slice(-10)}</a> <Pill of={outcomeWord(line.outcome)} /> <span class="soft small">{line.cause}</span></p>
);

const number = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : (+value.toPrecision(3)).toString());

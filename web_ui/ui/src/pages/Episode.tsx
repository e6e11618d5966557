/** One episode on one time axis: camera images, critic outputs, states and actions. */

import { useEffect } from "preact/hooks";
import { get } from "../api";
import { silent } from "../clock";
import { clock, percent, seconds, short } from "../format";
import { addressOf, asked, kept } from "../parts/episodeFilters";
import { LabelBar } from "../parts/Label";
import { Empty, Failed, Pill } from "../parts/Pieces";
import { NamedDt } from "../parts/Terms";
import { useGet } from "../parts/use";
import { useKeys } from "../parts/useKeys";
import { Viewer } from "../parts/Viewer";
import { go, query } from "../router";
import type { EpisodeLine, EpisodePage as Page, EpisodeView, Series } from "../types";
import { outcomeWord, PURPOSES } from "../words";

export function EpisodePage({ id }: { id: string }) {
  const view = useGet<EpisodeView>(`/episodes/${id}`);
  const open = view.value?.episode.outcome === "open";
  const series = useGet<Series>(view.value && !open ? `/episodes/${id}/series?points=1500` : "");
  useEffect(() => {
    const timer = open && setInterval(() => silent.value || view.again(), POLL_MS);
    return () => void (timer && clearInterval(timer));
  }, [open]);
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
        {line.person_outcome && <span class="soft small">label: {outcomeWord(line.person_outcome).word.toLowerCase()}</span>}
        <span class="soft small push"><kbd>n</kbd> next older episode</span>
      </div>
      <LabelBar line={line} again={view.again} />
      {series.value && series.value.frames > 0 ? <Viewer id={id} series={series.value} view={view.value} again={view.again} /> : null}
      {open && <section class="card"><Empty title="This episode has not ended yet">Its recording appears here when it ends.</Empty></section>}
      {!open && !series.value && !series.problem && <section class="card"><Empty title="Loading the recording…" /></section>}
      {series.problem && <div class="notice warn">{series.problem}</div>}
      <SameStart line={line} />
      <Facts view={view.value} />
    </main>
  );
}

const POLL_MS = 2000;

/** The address of the list of episodes, with its filters. */
function listOf(campaign: string): string {
  const filters = kept(query.value);
  filters.set("campaign", campaign);
  return `/episodes?${filters}`;
}

/** `n` opens the next older episode of the same list. */
function useOlder(id: string, campaign: string): void {
  useKeys((event) => {
    if (event.key !== "n" || !campaign) return;
    const wanted = asked(query.value);
    wanted.set("campaign", campaign);
    void get<Page>(`/episodes?${wanted}&limit=1&before=${id}`).then((page) => {
      const older = page.rows[0];
      if (older) go(addressOf(older.order_id, query.value));
    });
  });
}

/** Other episodes from the same start, to compare with. */
function SameStart({ line }: { line: EpisodeLine }) {
  const rows = useGet<EpisodeLine[]>(line.outcome === "open" ? "" : `/episodes/${line.order_id}/same-start`).value ?? [];
  if (!rows.length) return null;
  return (
    <section class="card" aria-label="From the same start">
      <header><h2>From the same start</h2></header>
      <div class="body"><ul class="plain">
        {rows.map((one) => <li key={one.order_id}><Pill of={outcomeWord(one.outcome)} /> <span class="soft small">version <span class="mono">{short(one.policy_id)}</span>{one.side && `, ${one.side}`}, {PURPOSES[one.purpose] ?? one.purpose}, round {one.round}, {one.ticks} periods</span> <a href={`/compare?a=${line.order_id}&b=${one.order_id}`}>Compare</a></li>)}
      </ul></div>
    </section>
  );
}

function Facts({ view }: { view: EpisodeView }) {
  const line = view.episode;
  const rows: [string, string][] = [
    ["Purpose", `${PURPOSES[line.purpose] ?? line.purpose}, round ${line.round}${line.side ? `, ${line.side} of pair ${line.pair}` : ""}`],
    ["Start", `${view.start_split} ${view.start_index}`],
    ["Station", line.station],
    ["Policy version", short(line.policy_id)],
    ["Policy run", view.ran_policy_id ? (view.ran_policy_id === line.policy_id ? "as ordered" : short(view.ran_policy_id)) : "–"],
    ["Verdict", line.confidence ? `${outcomeWord(line.outcome).word}, confidence ${percent(line.confidence)}` : outcomeWord(line.outcome).word],
    ["Ended", line.ended_ms ? clock(line.ended_ms) : "not yet"],
    ["Duration", `${seconds(view.seconds)}, ${line.ticks} control periods`],
    ["Reset attempts", String(view.reset_attempts)],
    ["Clipped actions", String(view.clipped)],
    ["SHA-256 of the arrays", view.sha256 || "–"],
  ];
  return (
    <section class="card">
      <header><h2>Record</h2></header>
      <div class="body"><dl class="pairs wide">{rows.map(([name, value]) => <><NamedDt name={name} /><dd>{value}</dd></>)}</dl></div>
    </section>
  );
}

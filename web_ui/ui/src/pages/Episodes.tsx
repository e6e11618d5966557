/** Episodes, newest first, page by page; j and k move, Enter opens. */

import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "../api";
import { short } from "../format";
import { Empty, Failed, Pill } from "../parts/Pieces";
import { useGet } from "../parts/use";
import { go, query, tune } from "../router";
import { fleet } from "../socket";
import type { CampaignLine, EpisodeLine, EpisodePage } from "../types";
import { outcomeWord, PURPOSES } from "../words";

const OUTCOMES = ["success", "failure", "unsafe", "aborted", "invalid", "unknown", "open"];
const FILTERS = ["campaign", "outcome", "purpose", "round", "station", "policy"];

function useEpisodes() {
  const filters = new URLSearchParams();
  for (const name of FILTERS) {
    const value = query.value.get(name);
    if (value) filters.set(name, value);
  }
  const key = filters.toString();
  const [state, put] = useState<{ key: string; rows: EpisodeLine[]; next: string | null; problem: string; loading: boolean }>({
    key: "", rows: [], next: null, problem: "", loading: true,
  });
  const load = async (before: string | null, rows: EpisodeLine[]) => {
    put({ key, rows, next: null, problem: "", loading: true });
    try {
      const page = await get<EpisodePage>(`/episodes?${key}&limit=50${before ? `&before=${before}` : ""}`.replace("?&", "?"));
      put({ key, rows: [...rows, ...page.rows], next: page.next === undefined || page.next === null ? null : String(page.next), problem: "", loading: false });
    } catch (error) {
      put({ key, rows, next: null, problem: error instanceof Problem ? error.message : String(error), loading: false });
    }
  };
  useEffect(() => void load(null, []), [key]);
  return { ...state, more: () => void load(state.next, state.rows) };
}

export function EpisodesPage() {
  const { rows, next, problem, loading, more } = useEpisodes();
  const [at, move] = useState(-1);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
      if (event.key === "j") move((now) => Math.min(rows.length - 1, now + 1));
      else if (event.key === "k") move((now) => Math.max(0, now - 1));
      else if (event.key === "Enter" && rows[at] && event.target === document.body) go(addressOf(rows[at]));
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [rows, at]);
  return (
    <main>
      <div class="head"><h1>Episodes</h1><span class="soft small push"><kbd>j</kbd> <kbd>k</kbd> move · <kbd>Enter</kbd> opens</span></div>
      <Filters />
      {problem && <Failed sentence={problem} />}
      <section class="card flush scroll" aria-busy={loading}>
        {rows.length ? <Rows rows={rows} at={at} /> : loading ? <Empty title="Reading the ledger…" /> : <Empty title="No episode fits">{problem ? "" : "Take a filter away."}</Empty>}
      </section>
      {next && <button style={{ justifySelf: "center" }} disabled={loading} onClick={more}>Show 50 more</button>}
    </main>
  );
}

/** An episode's address carries the filters of the list, so that `n` there means the next of this list. */
function addressOf(row: EpisodeLine): string {
  const kept = new URLSearchParams(query.value);
  kept.delete("campaign");
  return `/episodes/${row.order_id}${kept.size ? `?${kept}` : ""}`;
}

function Filters() {
  const campaigns = useGet<CampaignLine[]>("/campaigns").value ?? [];
  const stations = Object.keys(fleet.value?.stations ?? {});
  const pick = (name: string) => (event: Event) => tune({ [name]: (event.target as HTMLSelectElement).value });
  return (
    <div class="filters">
      <Choice name="campaign" label="Campaign" all="Latest" options={campaigns.map((one) => [one.id, `${one.name} ${one.id.slice(-6)}`])} pick={pick} />
      <Choice name="outcome" label="Outcome" all="Any" options={OUTCOMES.map((one) => [one, outcomeWord(one).word])} pick={pick} />
      <Choice name="purpose" label="Purpose" all="Any" options={Object.entries(PURPOSES)} pick={pick} />
      {stations.length > 0 && <Choice name="station" label="Station" all="Any" options={stations.map((one) => [one, one])} pick={pick} />}
      <label class="field">Round<input type="number" min={0} style={{ width: "5.5rem" }} value={query.value.get("round") ?? ""} onChange={pick("round")} /></label>
    </div>
  );
}

interface ChoiceProps { name: string; label: string; all: string; options: [string, string][]; pick: (name: string) => (event: Event) => void }

function Choice({ name, label, all, options, pick }: ChoiceProps) {
  return (
    <label class="field">{label}
      <select value={query.value.get(name) ?? ""} onChange={pick(name)}>
        <option value="">{all}</option>
        {options.map(([value, word]) => <option value={value}>{word}</option>)}
      </select>
    </label>
  );
}

function Rows({ rows, at }: { rows: EpisodeLine[]; at: number }) {
  return (
    <table>
      <thead>
        <tr><th>Episode</th><th>Outcome</th><th>Purpose</th><th class="right">Round</th><th>Station</th><th>Policy</th><th class="right">Ticks</th><th class="right">Confidence</th></tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          <tr class={`pick ${index === at ? "on" : ""}`} key={row.order_id} onClick={() => go(addressOf(row))}>
            <td class="mono"><a href={addressOf(row)}>{row.order_id.slice(-10)}</a></td>
            <td><Pill of={outcomeWord(row.outcome)} /> <span class="soft small">{row.cause}</span></td>
            <td>{PURPOSES[row.purpose] ?? row.purpose}{row.side ? <span class="faint"> · {row.side}, pair {row.pair}</span> : null}</td>
            <td class="right">{row.round}</td>
            <td>{row.station}</td>
            <td class="mono faint">{short(row.policy_id)}</td>
            <td class="right">{row.ticks || "–"}</td>
            <td class="right">{row.confidence ? row.confidence.toFixed(2) : "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Episodes, newest first, page by page; j and k move, Enter opens. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { silent } from "../clock";
import { clock, short } from "../format";
import { addressOf, ANY, asked, kept, mistake } from "../parts/episodeFilters";
import { EpisodeGrid } from "../parts/EpisodeGrid";
import { Empty, Failed, Live, Pill } from "../parts/Pieces";
import { Selected } from "../parts/Selected";
import { Th } from "../parts/Terms";
import { sentence, useBack, useGet } from "../parts/use";
import { useKeys } from "../parts/useKeys";
import { go, query, tune } from "../router";
import { fleet } from "../socket";
import type { CampaignLine, EpisodeLine, EpisodePage } from "../types";
import { outcomeWord, PURPOSES } from "../words";

const OUTCOMES = ["success", "failure", "unsafe", "aborted", "invalid", "unknown", "released", "open"];

interface Listed { rows: EpisodeLine[]; next: string | null; problem: string; loading: boolean }
const NOTHING: Listed = { rows: [], next: null, problem: "", loading: true };

/** The list for the current filters. Late answers to earlier filters are dropped. */
function useEpisodes() {
  const key = asked(query.value).toString(), wrong = mistake(query.value);
  const [state, put] = useState(NOTHING);
  const turn = useRef(0);
  const load = async (before: string | null, rows: EpisodeLine[]) => {
    const mine = ++turn.current;
    const update = (found: Partial<Listed>) => mine === turn.current && put({ rows, next: before, problem: "", loading: false, ...found });
    if (wrong) return update({ problem: wrong });
    update({ loading: true });
    try {
      const page = await get<EpisodePage>(`/episodes?${key}&limit=50${before ? `&before=${before}` : ""}`);
      update({ rows: [...rows, ...page.rows], next: page.next ? String(page.next) : null });
    } catch (error) {
      update({ problem: sentence(error) });
    }
  };
  useEffect(() => void load(null, []), [key, wrong]);
  const more = () => void load(state.next, state.rows);
  useBack(state.problem, more);
  return { ...state, key, more };
}

export function EpisodesPage() {
  const { rows, next, problem, loading, key, more } = useEpisodes();
  const [at, move] = useState(-1);
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => (move(-1), choose(new Set())), [key]);
  const pick: Pick = (id, on) => choose((now) => new Set(on ? [...now, id] : [...now].filter((one) => one !== id)));
  const grid = query.value.get("view") === "grid";
  useEffect(() => document.querySelector("tr.pick.on")?.scrollIntoView({ block: "nearest" }), [at]);
  useKeys((event) => {
    if (event.key === "j") move((now) => Math.min(rows.length - 1, now + 1));
    else if (event.key === "k") move((now) => Math.max(0, now - 1));
    else if (event.key === "x" && rows[at]) pick(rows[at].order_id, !chosen.has(rows[at].order_id));
    else if (event.key === "Enter" && rows[at] && event.target === document.body) go(addressOf(rows[at].order_id, query.value));
  });
  return (
    <main>
      <div class="head"><h1>Episodes</h1><span class="soft small push optional">newest first · <kbd>j</kbd> <kbd>k</kbd> select · <kbd>x</kbd> choose · <kbd>Enter</kbd> open</span></div>
      <Filters />
      {problem && <Failed sentence={problem} />}
      <Selected rows={rows.filter((one) => chosen.has(one.order_id))} clear={() => choose(new Set())} all={() => choose(new Set(rows.map((one) => one.order_id)))} shown={rows.length} />
      <Live old={silent.value}>
        {(rows.length > 0 || !problem) && (
          <section class="card flush scroll" aria-busy={loading}>
            {rows.length ? grid ? <EpisodeGrid rows={rows} chosen={chosen} pick={pick} /> : <Rows rows={rows} at={at} chosen={chosen} pick={pick} /> : loading ? <Empty title="Loading…" /> : <None />}
          </section>
        )}
        {next && <button style={{ justifySelf: "center" }} disabled={loading || silent.value} onClick={more}>Show 50 more</button>}
      </Live>
    </main>
  );
}

function None() {
  const filters = kept(query.value);
  filters.delete("campaign");
  if (filters.size) return <Empty title="No episode matches the filters">Remove a filter.</Empty>;
  return <Empty title="No episode has ended yet">Episodes appear here when they end. To see open ones, choose the outcome Open.</Empty>;
}

function Filters() {
  const campaigns = useGet<CampaignLine[]>("/campaigns").value ?? [];
  const stations = Object.keys(fleet.value?.stations ?? {});
  const pick = (name: string) => (event: Event) => tune({ [name]: (event.target as HTMLSelectElement).value });
  return (
    <fieldset class="filters" disabled={silent.value}>
      <Choice name="campaign" label="Campaign" all="Latest" options={campaigns.map((one) => [one.id, `${one.name} ${one.id.slice(-6)}`])} pick={pick} />
      <Choice name="outcome" label="Outcome" all="Ended" options={[[ANY, "All orders"], ...OUTCOMES.map((one): [string, string] => [one, outcomeWord(one).word])]} pick={pick} />
      <Choice name="purpose" label="Purpose" all="Any" options={Object.entries(PURPOSES)} pick={pick} />
      {stations.length > 0 && <Choice name="station" label="Station" all="Any" options={stations.map((one) => [one, one])} pick={pick} />}
      <Round pick={pick("round")} />
      <Choice name="starts" label="Starts" all="Any" options={[["train", "Training starts"], ["hidden", "Hidden starts"]]} pick={pick} />
      <Choice name="label" label="Label" all="Any" options={[["any", "Labelled"], ["differs", "Differs from the verdict"]]} pick={pick} />
      <Choice name="p_v" label="p_v at the start" what="Probability of success that the critic predicted at the first decision; among the newest 2000 episodes of the selection" all="Any" options={[["low", "below 0.3"], ["middle", "0.3 to 0.7"], ["high", "0.7 and more"]]} pick={pick} />
      <Choice name="interventions" label="Interventions" what="Whether an operator moved the robot in the episode; among the newest 2000 episodes of the selection" all="Any" options={[["with", "With"], ["without", "Without"]]} pick={pick} />
      {query.value.get("cluster") && <button type="button" title="Remove this filter" onClick={() => tune({ cluster: "" })}>Failure cluster {query.value.get("cluster")} ✕</button>}
      {query.value.get("policy") && <button type="button" title="Remove this filter" onClick={() => tune({ policy: "", cluster: "" })}>Version {short(query.value.get("policy")!)} ✕</button>}
      <button type="button" class="push" aria-pressed={query.value.get("view") === "grid"} onClick={() => tune({ view: query.value.get("view") === "grid" ? "" : "grid" })}>{query.value.get("view") === "grid" ? "☰ Table" : "▦ Filmstrips"}</button>
    </fieldset>
  );
}

/** An uncontrolled input, so that redrawing the page does not change what the user types. */
function Round({ pick }: { pick: (event: Event) => void }) {
  const box = useRef<HTMLInputElement>(null), round = query.value.get("round") ?? "";
  useEffect(() => void (box.current!.value = round), [round]);
  return <label class="field">Round<input type="number" min={0} style={{ width: "5.5rem" }} ref={box} onChange={pick} /></label>;
}

interface ChoiceProps { name: string; label: string; what?: string; all: string; options: [string, string][]; pick: (name: string) => (event: Event) => void }

function Choice({ name, label, what, all, options, pick }: ChoiceProps) {
  return (
    <label class="field" title={what} data-term={what && label}>{label}
      <select value={query.value.get(name) ?? ""} onChange={pick(name)}>
        <option value="">{all}</option>
        {options.map(([value, word]) => <option value={value}>{word}</option>)}
      </select>
    </label>
  );
}

type Pick = (id: string, on: boolean) => void;
interface RowsProps { rows: EpisodeLine[]; at: number; chosen: ReadonlySet<string>; pick: Pick }

function Rows({ rows, at, chosen, pick }: RowsProps) {
  return (
    <table>
      <thead>
        <tr><th><span class="visually-hidden">Chosen</span></th><th>Episode</th><Th of="Ended" /><th>Outcome</th><th>Purpose</th><Th of="Round" /><th>Station</th><th>Policy</th><Th of="Periods" /><Th of="Confidence" /></tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          <tr class={`pick ${index === at ? "on" : ""}`} key={row.order_id} data-to={addressOf(row.order_id, query.value)}>
            <td onClick={(event) => event.stopPropagation()}><input type="checkbox" aria-label={`Choose ${row.order_id.slice(-10)}`} checked={chosen.has(row.order_id)} onChange={(event) => pick(row.order_id, event.currentTarget.checked)} /></td>
            <td class="mono"><a href={addressOf(row.order_id, query.value)}>{row.order_id.slice(-10)}</a></td>
            <td class="right nowrap soft">{row.ended_ms ? clock(row.ended_ms) : "–"}</td>
            <td><Pill of={outcomeWord(row.outcome)} /> <span class="soft small">{row.cause}{row.person_outcome && row.person_outcome !== row.outcome ? ` label: ${row.person_outcome}` : ""}</span></td>
            <td class="nowrap">{PURPOSES[row.purpose] ?? row.purpose}{row.side ? <span class="faint"> · {row.side}, pair {row.pair}</span> : null}</td>
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

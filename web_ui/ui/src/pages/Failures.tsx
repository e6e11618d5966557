/** Where a policy fails: success over the start space, failure clusters, stations, versions, and what to look at next. */

import { useState } from "preact/hooks";
import { percent, short } from "../format";
import { Strip } from "../parts/Strip";
import { Empty, Failed, Interval, Rate, Truth } from "../parts/Pieces";
import { LEAST_TRIALS } from "../parts/SuccessChart";
import { useGet } from "../parts/use";
import { query, tune } from "../router";
import type { CampaignView, FailureCluster, StartCell, StartMap, Success, WhereItFails } from "../types";
import { outcomeWord } from "../words";

export function FailuresPage({ id }: { id: string }) {
  const campaign = useGet<CampaignView>(`/campaigns/${id}`);
  const wanted = new URLSearchParams();
  for (const name of ["starts", "policy", "station", "x", "y"]) if (query.value.get(name)) wanted.set(name, query.value.get(name)!);
  const { value, problem } = useGet<WhereItFails>(`/campaigns/${id}/failures?${wanted}`);
  return (
    <main>
      <div class="head"><a href={`/campaigns/${id}`}>← {campaign.value?.name ?? "Campaign"}</a><h1>Where it fails</h1>{value && <span class="soft"><Rate of={value.success} />{value.is_cut && " newest episodes"}{campaign.value && <Truth of={campaign.value} />}</span>}</div>
      <Selections campaign={campaign.value} found={value} />
      {problem && <Failed sentence={problem} />}
      {!value && !problem && <Empty title="Reading the episodes…" />}
      {value && (value.success.n ? <Found of={value} /> : <Empty title="No episode of this selection has a verdict yet" />)}
    </main>
  );
}

function Selections({ campaign, found }: { campaign: CampaignView | undefined; found: WhereItFails | undefined }) {
  const pick = (name: string) => (event: Event) => tune({ [name]: (event.target as HTMLSelectElement).value });
  const versions = (campaign?.versions ?? []).map((one): [string, string] => [one.id, `${short(one.id)} (${one.state})`]);
  const stations = (campaign?.stations ?? []).map((one): [string, string] => [one.id, one.id]);
  const axes = (found?.axes ?? []).map((one, index): [string, string] => [String(index), one.name]);
  const axis = (name: "x" | "y", other: "x" | "y") => (event: Event) =>
    tune({ [name]: (event.target as HTMLSelectElement).value, [other]: String(found!.map![other]) });
  return (
    <fieldset class="filters">
      <Pick label="Starts" value={query.value.get("starts") ?? ""} options={[["", "All"], ["train", "Training starts"], ["hidden", "Hidden starts"]]} onChange={pick("starts")} />
      <Pick label="Version" value={query.value.get("policy") ?? ""} options={[["", "All"], ["champion", "Champion"], ...versions]} onChange={pick("policy")} />
      <Pick label="Station" value={query.value.get("station") ?? ""} options={[["", "All"], ...stations]} onChange={pick("station")} />
      {found?.map && found.map.y >= 0 && <>
        <Pick label="Columns" value={String(found.map.x)} options={axes.filter(([index]) => index !== String(found.map!.y))} onChange={axis("x", "y")} />
        <Pick label="Rows" value={String(found.map.y)} options={axes.filter(([index]) => index !== String(found.map!.x))} onChange={axis("y", "x")} />
      </>}
    </fieldset>
  );
}

interface PickProps { label: string; value: string; options: [string, string][]; onChange: (event: Event) => void }
const Pick = ({ label, value, options, onChange }: PickProps) => (
  <label class="field">{label}<select value={value} onChange={onChange}>{options.map(([key, word]) => <option key={key} value={key}>{word}</option>)}</select></label>
);

function Found({ of }: { of: WhereItFails }) {
  return (
    <>
      <Hints of={of} />
      {of.map ? <Starts key={`${of.map.x} ${of.map.y}`} of={of} map={of.map} /> : <Empty title="The starts of this task have no values" />}
      <Clusters of={of} />
      <div class="columns">
        <Groups title="Success by station" name="Station" rows={of.stations} filter="station" of={of} />
        <Groups title="Success by version" name="Version" rows={of.versions} filter="policy" of={of} />
      </div>
    </>
  );
}

/** The address of the list of episodes of this selection. */
export function listOf(of: WhereItFails, more: Record<string, string>): string {
  const wanted = new URLSearchParams({ campaign: of.campaign_id });
  const own = { starts: of.starts, policy: of.policy_id, station: of.station, ...more };
  for (const [name, value] of Object.entries(own)) if (value) wanted.set(name, value);
  return `/episodes?${wanted}`;
}

function Hints({ of }: { of: WhereItFails }) {
  const lists: Record<string, Record<string, string>> = { labels: { label: "differs" }, unsafe: { outcome: "unsafe" } };
  const address = (link: string) => {
    const [kind, name] = link.split(" ");
    if (kind === "cluster") return listOf(of, { cluster: name! });
    if (kind === "station") return listOf(of, { station: link.slice(8), outcome: "failure" });
    return lists[link] ? listOf(of, lists[link]) : "";
  };
  return (
    <section class="card" aria-label="What to look at next">
      <header><h2>What to look at next</h2></header>
      <div class="body">
        {of.hints.length ? (
          <ol class="hints">
            {of.hints.map((one) => (
              <li key={one.link}>{one.sentence} {one.order_id && <a href={`/episodes/${one.order_id}`}>Watch an example</a>}{address(one.link) && <> · <a href={address(one.link)}>show these episodes</a></>}</li>
            ))}
          </ol>
        ) : <p class="soft small">No start, station or group of failures differs from the rest by more than chance.</p>}
      </div>
    </section>
  );
}

const bound = (of: WhereItFails, index: number, at: number): string => {
  const axis = of.axes[index]!;
  return (+(axis.low + (at * (axis.high - axis.low)) / of.map!.bins).toPrecision(3)).toString();
};
const place = (of: WhereItFails, map: StartMap, cell: StartCell): string =>
  [[map.x, cell.column], [map.y, cell.row]].filter(([axis]) => axis! >= 0)
    .map(([axis, at]) => `${of.axes[axis!]!.name} ${bound(of, axis!, at!)} to ${bound(of, axis!, at! + 1)}`).join(", ");
const counts = ({ success: of }: StartCell): string => `${percent(of.success)} [${percent(of.low)}, ${percent(of.high)}], ${of.successes} of ${of.n}`;

/** The map of success over two start values. A cell with too few episodes has no colour. */
function Starts({ of, map }: { of: WhereItFails; map: StartMap }) {
  const worst = [...map.cells].filter((one) => one.success.n >= LEAST_TRIALS).sort((a, b) => (a.success.success ?? 0) - (b.success.success ?? 0))[0];
  const [at, choose] = useState<string>(worst ? `${worst.column} ${worst.row}` : "");
  const cells = new Map(map.cells.map((one) => [`${one.column} ${one.row}`, one]));
  const lines = map.y < 0 ? 1 : map.bins;
  const lowest = Math.min(...map.cells.filter((one) => one.success.n >= LEAST_TRIALS).map((one) => one.success.success ?? 1), of.success.success ?? 1);
  return (
    <section class="card" aria-label="Success over the start space">
      <header><h2>Success over the start space</h2><span class="soft small push optional">fewer than {LEAST_TRIALS} episodes: no colour</span></header>
      <div class="body start-space">
        <div class="map" style={{ gridTemplateColumns: `max-content repeat(${map.bins}, minmax(0, 1fr))` }}>
          {Array.from({ length: lines }, (_, turned) => {
            const line = lines - 1 - turned;
            return <>
              <span class="tick faint">{map.y < 0 ? "" : bound(of, map.y, line + 0.5)}</span>
              {Array.from({ length: map.bins }, (_, column) => <Cell of={of} map={map} cell={cells.get(`${column} ${line}`)} lowest={lowest} on={at === `${column} ${line}`} choose={() => choose(`${column} ${line}`)} />)}
            </>;
          })}
          <span />{Array.from({ length: map.bins }, (_, column) => <span class="tick faint across">{bound(of, map.x, column + 0.5)}</span>)}
        </div>
        <div class="pile">
          <p class="small soft">Columns: <b>{of.axes[map.x]!.name}</b>{map.y >= 0 && <>; rows: <b>{of.axes[map.y]!.name}</b></>}</p>
          <p class="legend scale"><span>{percent(lowest, 0)}</span><i /><span>100 %</span></p>
          <Chosen of={of} map={map} cell={cells.get(at)} />
          <details class="small"><summary>Share of the variance of success that each start value explains</summary>
            <dl class="pairs">{of.axes.map((axis) => <><dt>{axis.name}</dt><dd>{percent(axis.spread, 2)}</dd></>)}</dl>
          </details>
        </div>
      </div>
    </section>
  );
}

interface CellProps { of: WhereItFails; map: StartMap; cell: StartCell | undefined; lowest: number; on: boolean; choose: () => void }
function Cell({ of, map, cell, lowest, on, choose }: CellProps) {
  if (!cell) return <span class="cell none" title="no episode" />;
  const few = cell.success.n < LEAST_TRIALS, rate = cell.success.success ?? 0;
  const share = Math.round(100 * (lowest < 1 ? (rate - lowest) / (1 - lowest) : 1));
  const note = `${place(of, map, cell)}: ${counts(cell)}${few ? ", too few" : ""}`;
  return (
    <button class={`cell ${few ? "few" : ""}`} aria-pressed={on} aria-label={note} title={note} onClick={choose}
      style={few ? {} : { background: `color-mix(in oklab, var(--map-high) ${share}%, var(--map-low))` }}>
      {few ? cell.success.n : Math.round(100 * rate)}
    </button>
  );
}

function Chosen({ of, map, cell }: { of: WhereItFails; map: StartMap; cell: StartCell | undefined }) {
  if (!cell) return <p class="faint small">Select a cell.</p>;
  return (
    <div role="status" class="pile">
      <p><b>{place(of, map, cell)}</b></p>
      <p class="num">{counts(cell)}{cell.success.n < LEAST_TRIALS && ", too few to compare"}</p>
      <Interval low={cell.success.low} high={cell.success.high} at={cell.success.success ?? null} />
      {cell.failed.length > 0 && <p class="small">Newest failures: {cell.failed.map((one) => <><a class="mono" href={`/episodes/${one}`}>{one.slice(-6)}</a> </>)}</p>}
    </div>
  );
}

function Clusters({ of }: { of: WhereItFails }) {
  return (
    <section class="card" aria-label="Failure clusters">
      <header><h2>Failure clusters</h2><span class="soft small push">the newest {of.compared} recorded failures, by the verifier's reason and by their last state</span></header>
      <div class="body clusters">
        {of.clusters.map((one) => <Cluster key={one.number} of={of} one={one} />)}
        {!of.clusters.length && <Empty title="No recorded failure in this selection" />}
      </div>
    </section>
  );
}

function Cluster({ of, one }: { of: WhereItFails; one: FailureCluster }) {
  return (
    <article class="cluster">
      <Strip id={one.example} label={`Example of cluster ${one.number}`} />
      <h3>{one.number}. {one.cause || outcomeWord(one.outcome).word} <span class="soft num">{one.n}, {percent(one.share, 0)}</span></h3>
      <p class="small">{one.what}</p>
      <p class="small soft">{one.stations.slice(0, 4).map(([name, n]) => `${name}: ${n}`).join(", ")}</p>
      <p class="small"><a href={`/episodes/${one.example}`}>Watch the example</a> · <a href={listOf(of, { cluster: String(one.number) })}>all {one.n}</a></p>
    </article>
  );
}

interface GroupsProps { title: string; name: string; rows: Success[]; filter: string; of: WhereItFails }
function Groups({ title, name, rows, filter, of }: GroupsProps) {
  return (
    <section class="card" aria-label={title}>
      <header><h2>{title}</h2><span class="soft small push">lowest first</span></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>{name}</th><th>Success</th><th><span class="visually-hidden">Interval</span></th><th><span class="visually-hidden">Failures</span></th></tr></thead>
          <tbody>
            {rows.map((one) => (
              <tr key={one.id}>
                <td class="mono" title={one.id}>{short(one.id)}</td>
                <td><Rate of={one} /></td>
                <td style={{ minWidth: "8rem" }}>{one.n >= LEAST_TRIALS ? <Interval low={one.low} high={one.high} at={one.success ?? null} /> : <span class="faint small">too few</span>}</td>
                <td class="small"><a href={listOf(of, { [filter]: one.id, outcome: "failure" })}>failures</a></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

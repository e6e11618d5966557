/** Policy versions: which version the stations run, their lineage, gates and success; promote, roll back. */

import { stale } from "../clock";
import { question } from "../command";
import { byName, goalText, percent, seconds, short } from "../format";
import { CommandList } from "../parts/Commands";
import { Empty, Failed, Interval, Live, Pill, Rate, Truth } from "../parts/Pieces";
import { Dt, Th } from "../parts/Terms";
import { useGet } from "../parts/use";
import { query, tune } from "../router";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { CampaignLine, CampaignView, GateBar, GateView, VersionView } from "../types";
import { decisionWord, reasonWord, type Word } from "../words";

export function PoliciesPage() {
  const campaigns = useGet<CampaignLine[]>("/campaigns");
  const id = query.value.get("campaign") ?? campaigns.value?.[0]?.id ?? "";
  if (campaigns.problem) return <main><Failed sentence={campaigns.problem} /></main>;
  if (campaigns.value && !id) return <main><h1>Policies</h1><section class="card"><Empty title="No campaign yet">Start one with <code>enpire demo</code>.</Empty></section></main>;
  return (
    <main>
      <div class="head">
        <h1>Policies</h1>
        {(campaigns.value?.length ?? 0) > 1 && (
          <select class="push" aria-label="Campaign" value={id} onChange={(event) => tune({ campaign: event.currentTarget.value })}>
            {campaigns.value!.map((one) => <option value={one.id}>{one.name} {one.id.slice(-6)}</option>)}
          </select>
        )}
      </div>
      {id && <Of key={id} id={id} />}
    </main>
  );
}

function Of({ id }: { id: string }) {
  const now = fleet.value?.campaign;
  const running = now?.id === id;
  // loaded again when the champion changes or a gate ends
  const turn = running ? `${now.champion} ${now.round}` : "";
  const versions = useGet<VersionView[]>(`/campaigns/${id}/policies`, turn);
  const campaign = useGet<CampaignView>(`/campaigns/${id}`, turn);
  const problem = versions.problem ?? campaign.problem;
  if (problem) return <Failed sentence={problem} />;
  if (!versions.value || !campaign.value) return <section class="card"><Empty title="Loading…" /></section>;
  if (!versions.value.length) return <section class="card"><Empty title="No version yet">The first version is trained on the demonstrations.</Empty></section>;
  const champion = versions.value.find((one) => one.state === "champion");
  return (
    <Live old={running && stale.value}>
      <div class="columns">
        <Champion of={champion} campaign={campaign.value} running={running} first={versions.value.length < 2} />
        <Runs champion={champion?.id ?? ""} running={running} />
      </div>
      <Table versions={versions.value} campaign={campaign.value} running={running} />
      {running && <CommandList />}
    </Live>
  );
}

interface ChampionProps { of: VersionView | undefined; campaign: CampaignView; running: boolean; first: boolean }

function Champion({ of, campaign, running, first }: ChampionProps) {
  if (!of) return <section class="card"><header><h2>Champion</h2></header><Empty title="No champion yet" /></section>;
  const since = campaign.deployments.filter((one) => one.id === of.id).at(-1)?.at_s;
  const back = () => (question.value = {
    title: "Roll back the champion?", text: "Every station returns to the previous champion at its next episode. An open gate is cancelled.",
    act: "Roll back", kind: "rollback", reasoned: true,
  });
  return (
    <section class="card">
      <header>
        <h2>Champion</h2><span class="mono soft" title={of.id}>{short(of.id)}</span>
        {running && mayCommand.value && <button class="push" onClick={back} disabled={first || stale.value}>↶ Roll back</button>}
      </header>
      <div class="body champion">
        <b>{percent(of.hidden.success)}</b>
        <Interval low={of.hidden.low} high={of.hidden.high} at={of.hidden.success ?? null} goal={campaign.goal.success} />
        <span class="faint small num">95 % interval {percent(of.hidden.low)} to {percent(of.hidden.high)}, {of.hidden.n} trials on hidden starts, goal {goalText(campaign.goal)}<Truth of={campaign} /></span>
        <dl class="pairs">
          <Dt of="Champion since" /><dd>{since === undefined ? "–" : `${seconds(since)} into the campaign`}</dd>
          <Dt of="Parent" /><dd>{of.parent ? <span class="mono">{short(of.parent)}</span> : "demonstrations"}, {madeBy(of)}</dd>
          <Dt of="Recipe, data" /><dd class="mono faint">{short(of.recipe_hash)}, {short(of.data_hash)}</dd>
        </dl>
      </div>
    </section>
  );
}

function Runs({ champion, running }: { champion: string; running: boolean }) {
  const stations = Object.values(fleet.value?.stations ?? {}).sort(byName);
  const word = (deployed: string): Word =>
    !deployed ? { icon: "…", word: "None yet", tone: "calm" } : deployed === champion ? { icon: "★", word: "Runs the champion", tone: "ok" } : { icon: "↻", word: "Changes at next episode", tone: "warn" };
  return (
    <section class="card">
      <header><h2>Versions on the stations</h2></header>
      {running && stations.length ? (
        <div class="flush scroll">
          <table><tbody>
            {stations.map((one) => (
              <tr key={one.name}><td>{one.name}</td><td class="mono faint">{one.deployed ? short(one.deployed) : "–"}</td><td class="right"><Pill of={word(one.deployed)} /></td></tr>
            ))}
          </tbody></table>
        </div>
      ) : <Empty title="No stations">This campaign does not run now.</Empty>}
    </section>
  );
}

const STATES: Record<string, Word> = {
  champion: { icon: "★", word: "Champion", tone: "ok" }, "rolled back": { icon: "↶", word: "Rolled back", tone: "bad" }, "former champion": { icon: "☆", word: "Former champion", tone: "calm" },
  rejected: { icon: "✕", word: "Rejected", tone: "bad" }, held: { icon: "=", word: "Held", tone: "warn" },
  "in the gate": { icon: "◎", word: "In the gate", tone: "busy" }, candidate: { icon: "•", word: "Candidate", tone: "calm" },
};

function Table({ versions, campaign, running }: { versions: VersionView[]; campaign: CampaignView; running: boolean }) {
  const gates = new Map(campaign.gates.map((gate) => [gate.candidate, gate]));
  const idea = new Map(campaign.ideas.flatMap((one) => one.experiments.map((test) => [test.policy_id, one.statement])));
  const promote = (version: VersionView) => (question.value = {
    title: `Promote ${short(version.id)} without a gate?`, act: "Promote", kind: "promote", target: version.id, reasoned: true,
    text: `Every station runs this version from its next episode on. Success on hidden starts: ${percent(version.hidden.success)} of ${version.hidden.n} trials.`,
  });
  return (
    <section class="card">
      <header><h2>Versions <span class="faint">{versions.length}</span></h2><span class="soft small push">newest first<Truth of={campaign} /></span></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Version</th><th>Parent</th><Th of="Trained after" /><th>State</th><th>Gate</th><th>Success on hidden starts</th><th><span class="visually-hidden">Commands</span></th></tr></thead>
          <tbody>
            {[...versions].reverse().map((version) => (
              <tr key={version.id}>
                <td class="nowrap"><span class="mono" title={version.id}>{short(version.id)}</span> <span class="faint small">{madeBy(version)}</span></td>
                <td class="small said"><span class="mono">{version.parent ? short(version.parent) : "demonstrations"}</span>{idea.has(version.id) && <span class="faint"> · {idea.get(version.id)}</span>}</td>
                <td class="right nowrap soft">{seconds(version.made_s)}</td>
                <td class="nowrap"><span title={version.why}><Pill of={STATES[version.state] ?? { icon: "•", word: version.state, tone: "calm" }} /></span></td>
                <td class="nowrap"><GateResult gate={gates.get(version.id)} now={running ? fleet.value?.gates ?? [] : []} /></td>
                <td class="nowrap"><div class="beside"><Rate of={version.hidden} /></div></td>
                <td class="right">{running && mayCommand.value && version.state !== "champion" && <button class="quiet" disabled={stale.value} onClick={() => promote(version)} aria-label={`Promote ${short(version.id)}`}>↑ Promote</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function GateResult({ gate, now }: { gate: GateView | undefined; now: GateBar[] }) {
  if (!gate) return <span class="faint small">none</span>;
  const word = decisionWord(gate.decision);
  const tally = now.find((one) => one.id === gate.id) ?? gate;
  return <span class="small"><span aria-hidden="true">{word.icon}</span> {word.word}{gate.reason && ` (${reasonWord(gate.reason)})`} <span class="faint num">{tally.wins} : {tally.losses} in {tally.pairs} pairs</span></span>;
}

const madeBy = (of: VersionView) => (of.branch ? `branch ${of.branch}` : `round ${of.round}`);

/** One campaign: success, cost, gates, pass@k, hypotheses and training runs. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { stale } from "../clock";
import { command, question } from "../command";
import { goalText, percent, seconds, short, whole } from "../format";
import { Branches } from "../parts/Branches";
import { CommandList } from "../parts/Commands";
import { Metrics } from "../parts/Metrics";
import { LimitsDialog } from "../parts/Limits";
import { ideaOfGate } from "../parts/ideaLayout";
import { Ideas } from "../parts/Ideas";
import { Difference, Empty, Failed, Interval, Live, Pill, points, Rate, Stack, Truth } from "../parts/Pieces";
import { KeptPoints } from "../parts/KeptPoints";
import { Spending } from "../parts/Spending";
import { type Point, SuccessChart } from "../parts/SuccessChart";
import { defined, Dt, Th } from "../parts/Terms";
import { useGet } from "../parts/use";
import { anchor } from "../router";
import { mayCommand } from "../session";
import { fleet, leave, watch } from "../socket";
import { TERMS } from "../terms";
import type { CampaignView, Confirm, GateBar, GateView, LedgerHead, Success } from "../types";
import { decisionWord, lastKnown, outcomeWord, PHASE_ORDER, phaseWord, reasonWord, stateWord } from "../words";

export function CampaignPage({ id }: { id: string }) {
  const topic = `campaign/${id}`;
  const first = useGet<CampaignView>(`/campaigns/${id}`);
  const live = useMemo(() => watch<CampaignView | { problem: string }>(topic), [topic]);
  useEffect(() => () => leave(topic), [topic]);
  const read = useRef<CampaignView | undefined>(undefined);
  const isThere = Boolean(first.value);
  useEffect(() => void (isThere && anchor() && document.getElementById(anchor())?.scrollIntoView({ block: "center" })), [isThere]);
  const latest = live.value;
  if (latest && !("problem" in latest)) read.current = latest;
  const newest = read.current ?? first.value;
  const problem = latest && "problem" in latest ? latest.problem : latest ? undefined : first.problem;
  if (problem && !newest) return <main><Failed sentence={problem} /></main>;
  if (!newest) return <main><Empty title="Loading…" /></main>;
  const old = stale.value && UNFINISHED.has(newest.state);
  return (
    <main>
      {problem && <Failed sentence={`${problem} The data below is from an earlier reading.`} />}
      <div class="head">
        <h1>{newest.name}</h1>
        <Pill of={old ? lastKnown(stateWord(newest.state)) : stateWord(newest.state)} />
        <span class="soft">{newest.reason}</span>
        <span class="push soft small">
          <a href={`/campaigns/${id}/report`}>report</a> · seed {newest.seed} · <a href={`/policies?campaign=${id}`}>policies</a> · <a href={`/episodes?campaign=${id}`}>episodes</a> · <a href={`/campaigns/${id}/failures?starts=train`}>where it fails</a>
        </span>
      </div>
      <CampaignCommands of={newest} />
      <Live old={old}>
        <Summary of={newest} />
        <SuccessChart points={pointsOf(newest)} goal={newest.goal.success} height={260} />
        <RaisedTable of={newest} />
        <Branches of={newest} />
        <Ideas of={newest} />
        <Spending of={newest} />
        <KeptPoints of={newest} />
        <div class="columns">
          <section class="card">
            <header><h2>Robot time</h2><span class="soft small push">time of the stations by phase; {newest.robot_h.toFixed(2)} robot-hours with all robots</span></header>
            <div class="body">
              <Stack unit={seconds} parts={PHASE_ORDER.map((phase) => [phase, newest.robot_time[phase] ?? 0, phaseWord(phase).word])} />
            </div>
          </section>
          <section class="card">
            <header><h2>Orders by outcome</h2><span class="soft small push">{whole(newest.episodes["total"])} orders</span></header>
            <div class="body">
              <Stack unit={whole} parts={ENDS.map((end) => [end, ends(newest, end), outcomeWord(end).word])} />
            </div>
          </section>
        </div>
        <Gates of={newest} />
        <PassAt of={newest} />
        <Data of={newest} />
        <TrainingRuns of={newest} />
        <Records />
        {fleet.value?.campaign?.id === id && <CommandList />}
      </Live>
    </main>
  );
}

const UNFINISHED = new Set(["running", "paused"]);

/** Commands to the running campaign. */
function CampaignCommands({ of }: { of: CampaignView }) {
  const id = of.id;
  const [editing, edit] = useState(false);
  const running = fleet.value?.campaign;
  if (running?.id !== id || !mayCommand.value) return null;
  const end = () => (question.value = {
    title: "End this campaign?", text: "The stations finish their episodes and leave. All records are kept. An ended campaign cannot be resumed; to resume it later, pause it instead.",
    act: "End the campaign", kind: "end campaign",
  });
  const back = () => (question.value = {
    title: "Roll back the champion?", text: "Every station returns to the previous champion at its next episode. An open gate is cancelled.",
    act: "Roll back", kind: "rollback", reasoned: true,
  });
  return (
    <div class="head" role="group" aria-label="Commands to the campaign">
      {running.paused ? (
        <button disabled={stale.value} onClick={() => void command("continue campaign", "")}>▶ Resume</button>
      ) : (
        <button disabled={stale.value} onClick={() => void command("pause campaign", "")}>‖ Pause</button>
      )}
      <button disabled={stale.value} onClick={back}>↶ Roll back the champion</button>
      <button disabled={stale.value} onClick={() => edit(true)}>✎ Goal and budget</button>
      <button disabled={stale.value} onClick={end}>■ End</button>
      {editing && <LimitsDialog of={of} close={() => edit(false)} />}
      <span class="soft small">{!stale.value && running.phase_text}</span>
    </div>
  );
}

const ENDS = ["success", "failure", "unsafe", "aborted", "invalid", "unknown", "released", "open"];
/** Orders by outcome; those that never began are a part of their own. */
const ends = ({ episodes, released }: CampaignView, end: string): number =>
  end === "released" ? released : (episodes[end] ?? 0) - (end === "aborted" ? released : 0);

function Summary({ of }: { of: CampaignView }) {
  const best = of.confirm?.n ? of.confirm : of.champion;
  return (
    <dl class="card summary">
      <div>
        <Dt of={of.confirm?.n ? "Confirmed on fresh starts" : "Champion on hidden starts"} />
        <dd>{percent(best?.success)} <small>goal {goalText(of.goal)}</small></dd>
        {best?.n ? <dd class="gauge"><Interval low={best.low} high={best.high} at={best.success ?? null} goal={of.goal.success} /></dd> : null}
        <dd class="note">
          {best?.n ? `95 % interval ${percent(best.low)} to ${percent(best.high)}, ${best.n} trials` : "not measured yet"}<Truth of={of} />
          {of.confirm?.n ? `, at least ${percent(of.confirm.bound)}` : ""}
          {medianText(of.confirm)}
          {of.confirm && of.confirm.passed !== undefined && of.confirm.passed !== null ? (of.confirm.passed ? " · passed" : " · not passed") : ""}
        </dd>
      </div>
      <div><Dt of="Base" /><dd>{percent(of.base?.success)}</dd><dd class="note">{of.base?.n ? `${of.base.n} hidden start${of.base.n === 1 ? "" : "s"}` : "not measured yet"}</dd></div>
      {of.gain && <div><Dt of="Gain per robot-hour" /><dd>{points(of.gain.per_robot_h)}</dd><dd class="note">{points(of.gain.per_robot_h_low)} to {points(of.gain.per_robot_h_high)}; {points(of.gain.delta)} in {of.gain.robot_h.toFixed(2)} robot-hours</dd></div>}
      <div><Dt of="Search-gate gap" /><dd>{points(of.search_gate_gap)}</dd><dd class="note">success on training minus hidden starts</dd></div>
      <div><Dt of="Robot utilisation" /><dd>{percent(of.mru)}</dd><dd class="note">in motion {percent(of.motion)}{of.real_time_factor ? `, real-time factor ${of.real_time_factor.toPrecision(3)}` : ""}</dd></div>
      <div><Dt of="Rollouts used" /><dd>{percent(of.rollouts_used.share)}</dd><dd class="note">{of.rollouts_used.used} of {of.rollouts_used.n}</dd></div>
      <div><Dt of="Wall clock" /><dd>{seconds(of.wall_s)}</dd><dd class="note">{of.time_to_goal_s ? `goal reached after ${seconds(of.time_to_goal_s)}` : "goal not reached"}</dd></div>
      <Budget of={of} />
    </dl>
  );
}

/** Median number of commands of the successes of a confirmation, with its exact 95 % interval. */
function medianText(of: Confirm | null | undefined): string {
  if (of?.median === undefined || of.median === null) return "";
  const interval = of.median_low && of.median_high ? ` [${of.median_low}, ${of.median_high}]` : "";
  return `, median ${of.median} commands${interval}`;
}

/** Used and available budget. The campaign ends when one of the three is used up. */
function Budget({ of }: { of: CampaignView }) {
  if (!of.budget) return null;
  const limit = (most: number, unit: (value: number) => string) => (most ? `of ${unit(most)}` : "no limit");
  return (
    <div class="spent">
      <Dt of="Budget used" />
      <dd class="budget">
        <span>Wall clock {seconds(of.wall_s)} <small>{limit(of.budget.wall_s, seconds)}</small></span>
        <span>Robot time {seconds(3600 * of.robot_h)} <small>{limit(of.budget.robot_s, seconds)}</small></span>
        <span>Rounds {Math.max(0, ...of.rounds.map((one) => one.round))} <small>of {of.budget.rounds}</small></span>
      </dd>
    </div>
  );
}

const CHAMPIONS = new Set(["champion", "former champion"]);
const rateOf = (of: Success) => ({ ...of, rate: of.success ?? null });

/** Every version with all its trials on hidden starts, and the data collection of each round. */
function pointsOf(of: CampaignView): Point[] {
  const versions = of.versions.filter((one) => one.hidden.n).map((one): Point => ({
    round: one.round, kind: CHAMPIONS.has(one.state) ? "champion" : "other", what: `${short(one.id)} (${one.state}) on hidden starts`, rate: rateOf(one.hidden),
  }));
  const rounds = of.rounds.filter((one) => one.collection.n).map((one): Point => ({
    round: one.round, kind: "collection", what: `round ${one.round}, collection on training starts`, rate: rateOf(one.collection),
  }));
  return [...versions, ...rounds];
}

/** Promotions for more success, with the interval of the gate's paired difference. */
function RaisedTable({ of }: { of: CampaignView }) {
  return (
    <section class="card" aria-label="What raised success">
      <header><h2>What raised success</h2><span class="soft small push">version minus the champion of its gate, on the same hidden starts</span></header>
      <div class="flush scroll">
        {of.raised.length ? (
          <table>
            <thead><tr><th>Version</th><th>Made by</th><th>Replaced</th><th>Gain</th><Th of="Pairs" /><th><span class="visually-hidden">Rolled back</span></th></tr></thead>
            <tbody>
              {of.raised.map((one) => (
                <tr key={one.id}>
                  <td class="mono" title={one.id}>{one.rolled_back ? <s>{short(one.id)}</s> : short(one.id)}</td>
                  <td>{one.branch ? `branch ${one.branch}` : `round ${one.round}`}</td>
                  <td class="mono faint">{short(one.over)}</td>
                  <td><Difference at={one.gain} low={one.low} high={one.high} /></td>
                  <td class="right">{one.pairs}</td>
                  <td class="small soft">{one.rolled_back && `rolled back: ${one.rolled_back}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        ) : <Empty title="No gate promoted a version for more success yet" />}
      </div>
    </section>
  );
}

/** Whether a gate ended with a decision: it is neither open nor dropped. */
const isDecided = (gate: GateView): boolean => gate.decision !== "open" && gate.decision !== "dropped";

function Gates({ of }: { of: CampaignView }) {
  const gates = of.gates, ideas = ideaOfGate(of.ideas);
  const inBranches = new Map(of.branches?.branches.map((one) => [one.gate?.id, one.number]));
  const now = fleet.value?.campaign?.id === of.id ? fleet.value.gates : [];
  return (
    <section class="card gates">
      <header><h2>Gates</h2><span class="soft small push">paired trials on hidden starts; the gate decides after any pair</span></header>
      <div class="flush scroll">
        {gates.length ? (
          <table>
            <thead>
              <tr><th>Round</th><th>Decision</th><th>Candidate</th><th>Champion</th><Th of="Pairs" /><Th of="Won : lost" /><th title="Success of the candidate minus success of the champion on the same hidden starts, with its confidence sequence">Difference</th><th class="right wrap" title="Log evidence for the decision (better, worse or faster), and the threshold to promote, in nats. A rejection as worse has a lower threshold: minus the logarithm of the rule's alpha.">Log evidence (threshold)</th></tr>
            </thead>
            <tbody>{gates.map((gate) => <GateRow key={gate.id} gate={gate} idea={ideas.get(gate.id)} branch={inBranches.get(gate.id)} now={now.find((one) => one.id === gate.id)} />)}</tbody>
          </table>
        ) : (
          <Empty title="No gate yet" />
        )}
      </div>
      {of.independence && <p class="body small" style={{ color: `var(--${of.independence.found ? "bad" : "soft"})` }}>{of.independence.sentence}</p>}
    </section>
  );
}

const signed = (value: number) => `${value >= 0 ? "" : "−"}${Math.abs(value).toFixed(2)}`;

function GateRow({ gate, idea, branch, now }: { gate: GateView; idea: number | undefined; branch: number | undefined; now: GateBar | undefined }) {
  const tally = now ?? gate;
  const decided = isDecided(gate);
  return (
    <tr id={`gate-${gate.id}`} class={anchor() === `gate-${gate.id}` ? "marked" : ""}>
      <td class="nowrap">{branch ? `branch ${branch}` : gate.round}{idea && <span class="soft small"> hypothesis {idea}</span>}</td>
      <td><Pill of={decisionWord(gate.decision)} /> <span class="soft small">{reasonWord(gate.reason)}</span></td>
      <td><span class="mono faint">{short(gate.candidate)}</span> {decided && <Rate of={gate.candidate_success} />}</td>
      <td><span class="mono faint">{short(gate.champion)}</span> {decided && <Rate of={gate.champion_success} />}</td>
      <td class="right nowrap">{tally.pairs}{tally.pairs > 0 && <><br /><a class="small" href={`/compare?gate=${gate.id}`} title="Episodes of both versions from the same start, side by side">compare</a></>}</td>
      <td class="right">{tally.wins} : {tally.losses}</td>
      <td>{decided && gate.pairs > 0 && typeof gate.difference_low === "number" && typeof gate.difference_high === "number" ? <Difference at={(gate.wins - gate.losses) / gate.pairs} low={gate.difference_low} high={gate.difference_high} /> : "–"}</td>
      <td class="right">{decided ? `${signed(gate.log_e)} (${gate.log_need.toFixed(2)})` : "–"}</td>
    </tr>
  );
}

function PassAt({ of }: { of: CampaignView }) {
  const versions = of.pass_at;
  if (!versions.length) return null;
  return (
    <section class="card" aria-label="pass@k">
      <header><h2>Success within k attempts (pass@k)</h2><span class="soft small push">hidden starts, Wilson 95 % intervals</span></header>
      <p class="body soft small">{TERMS["pass@k"]}.</p>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Version</th><Th of="Round" /><Th of="Trials" />{versions[0]!.rates.map((_, index) => <th {...defined("pass@k")}>pass@{index + 1}</th>)}</tr></thead>
          <tbody>
            {versions.map((version) => (
              <tr key={version.id}>
                <td class="mono" title={version.id}>{short(version.id)}{version.id === of.champion?.id && <span class="soft small"> champion</span>}</td>
                <td class="right">{version.round}</td>
                <td class="right">{version.rates[0]!.n}</td>
                {version.rates.map((rate) => <td class="num nowrap" {...defined("pass@k")}><b>{percent(rate.success)}</b> <span class="faint small">[{(100 * rate.low).toFixed(1)}, {(100 * rate.high).toFixed(1)}]</span></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The head of the ledger as the page was opened, for a note outside of this computer. */
function Records() {
  const ledger = useGet<LedgerHead>("/ledger");
  if (!ledger.value) return null;
  return (
    <section class="card">
      <header><h2>Records</h2><span class="soft small push">{whole(ledger.value.events)} events when this page was opened</span></header>
      <div class="body small">
        Head of the ledger: <code class="mono" style={{ overflowWrap: "anywhere" }}>{ledger.value.head}</code>
        <p class="soft">Store this line on another computer. <code>enpire ledger verify --expect HEAD</code> then shows whether the history was cut or rewritten.</p>
      </div>
    </section>
  );
}

function TrainingRuns({ of }: { of: CampaignView }) {
  const runs = of.rounds.flatMap((round) => (round.learner ? [{ round: round.round, ...round.learner }] : []));
  if (!runs.length) return null;
  return (
    <section class="card">
      <header><h2>Training runs</h2></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Round</th><th>Learner</th><th>State</th><Th of="Time" /><th>Metrics</th></tr></thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.job}>
                <td>{run.round}</td>
                <td>{run.learner}</td>
                <td>{run.state}{run.why && <span class="small"> {run.why}</span>}</td>
                <td class="right">{seconds(run.seconds)}</td>
                <td class="small soft num said">
                  <Metrics metrics={run.figures} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const taken = (episodes: number | null | undefined) => (typeof episodes === "number" ? whole(episodes) : "–");

/** Episodes of each round: asked for in the campaign file, used by its training run, collected. */
function Data({ of }: { of: CampaignView }) {
  const rows = of.rounds.filter(({ data }) => data.asked || data.collected || data.used);
  if (!rows.length) return null;
  return (
    <section class="card" aria-label="Episodes of each round">
      <header><h2>Episodes of each round</h2><span class="soft small push">demonstrations in round 0, then rollouts of the champion</span></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Round</th><Th of="Asked" /><Th of="Used" /><Th of="Succeeded" /><Th of="Collected" /><Th of="Used in all" /></tr></thead>
          <tbody>
            {rows.map(({ round, data }) => (
              <tr key={round}>
                <td>{round}</td>
                <td class="right">{whole(data.asked)} <span class="soft">{data.asked_of}</span></td>
                <td class="right">{taken(data.used)}{data.stopped ? <span class="soft"> {whole(data.stopped)} stopped early</span> : null}</td>
                <td class="right">{taken(data.succeeded)}</td>
                <td class="right">{whole(data.collected)}</td>
                <td class="right">{taken(data.all_used)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

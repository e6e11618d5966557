/** The running campaign: what needs attention, success, gate, training, stations and commands. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { stale } from "../clock";
import { command } from "../command";
import { byName, goalShare, percent, seconds, short, whole } from "../format";
import { Last } from "../parts/Last";
import { Attention } from "../parts/Attention";
import { CommandList } from "../parts/Commands";
import { Empty, Interval, Live, Truth } from "../parts/Pieces";
import { type Point, SuccessChart } from "../parts/SuccessChart";
import { defined, Dt } from "../parts/Terms";
import { useGet } from "../parts/use";
import { isDense, Wall, WallSwitch } from "../parts/Wall";
import { showPictures, Tile, togglePictures } from "../parts/Tile";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { CampaignView, FleetDocument, GateBar, Headline, LearnerBar, RoundPoint, Station, CommandKind } from "../types";

const chosen = signal<ReadonlySet<string>>(new Set());
const MANY = 2;

export function FleetPage() {
  const now = fleet.value;
  useEffect(() => () => void (chosen.value = new Set()), []);
  if (!now) return <main><Empty title="Loading…" /></main>;
  const stations = Object.values(now.stations).sort(byName);
  return (
    <main>
      <Title now={now} />
      <Attention now={now} />
      <Live old={stale.value}>
        {now.campaign && <Summary of={now.campaign} decided={`${now.gates.map((gate) => gate.id).join()} ${now.learner !== undefined}`} />}
        {now.campaign && (
          <div class="columns wide-left">
            <SuccessChart points={pointsOf(now.rounds)} goal={now.campaign.goal} height={210} />
            <div class="pile">
              <GateCards gates={now.gates} />
              <LearnerCard learner={now.learner} />
            </div>
          </div>
        )}
        {!now.connected && <Last />}
        {now.connected && <Stations stations={stations} />}
        <CommandList />
      </Live>
    </main>
  );
}

function Title({ now }: { now: FleetDocument }) {
  const campaign = now.campaign;
  return (
    <div class="head">
      <h1>Fleet</h1>
      {campaign ? (
        <span class="soft"><a href={`/campaigns/${campaign.id}`}>{campaign.name}</a> · {campaign.paused ? "paused" : campaign.phase_text}</span>
      ) : (
        <span class="soft">{now.why || (now.connected ? "no campaign yet" : "no campaign runs in this home")}</span>
      )}
    </div>
  );
}

/** `decided` changes when a gate or a training run begins or ends: then the share of used rollouts is read again. */
function Summary({ of, decided }: { of: Headline; decided: string }) {
  const used = useGet<CampaignView>(`/campaigns/${of.id}`, `${of.round} ${decided}`).value?.rollouts_used;
  const ended = Object.entries(of.episodes).reduce((sum, [kind, n]) => (kind === "open" || kind === "total" ? sum : sum + n), 0);
  const left = of.wall_budget_s ? of.wall_budget_s - of.elapsed_s : undefined;
  return (
    <dl class="card summary">
      <div>
        <Dt of="Champion on hidden starts" />
        <dd>{percent(of.success?.rate)} <small>goal {goalShare(of.goal, of.goal_by)}</small></dd>
        {of.success ? <dd class="gauge"><Interval low={of.success.low} high={of.success.high} at={of.success.rate ?? null} goal={of.goal} /></dd> : null}
        <dd class="note">
          {of.success?.n ? `95 % interval ${percent(of.success.low)} to ${percent(of.success.high)}, ${of.success.n} trials` : "not measured yet"}<Truth of={of} />
        </dd>
      </div>
      <div><Dt of="Round" /><dd>{of.round}</dd><dd class="note">0 is the base policy</dd></div>
      <div><Dt of="Episodes" /><dd>{whole(ended)}</dd><dd class="note">{whole(of.episodes["open"])} open</dd></div>
      <div><Dt of="Robot utilisation" /><dd>{percent(of.mru)}</dd><dd class="note">in motion {percent(of.motion)}{of.real_time_factor ? `, real-time factor ${of.real_time_factor.toPrecision(3)}` : ""}{used?.share ? <>, <span {...defined("Rollouts used")}>{percent(used.share)} of rollouts used</span></> : null}</dd></div>
      <div>
        <Dt of="Time" /><dd>{seconds(of.elapsed_s)}</dd>
        <dd class="note">{left === undefined ? "no limit" : left > 0 ? `${seconds(left)} left` : "budget used up"}</dd>
      </div>
    </dl>
  );
}

/** Champions on hidden starts and the data collection on training starts. */
const pointsOf = (rounds: RoundPoint[]): Point[] => rounds.map(({ round, purpose, success, id }) => ({
  round, rate: success, kind: purpose === "hidden" ? "champion" : "collection",
  what: purpose === "hidden" ? `${short(id)} on hidden starts` : `round ${round}, collection on training starts`,
}));

function GateCards({ gates }: { gates: GateBar[] }) {
  if (!gates.length) return <section class="card"><header><h2>Gate</h2></header><div class="body soft">No gate is open.</div></section>;
  return <>{gates.map((gate) => <GateCard key={gate.id} gate={gate} />)}</>;
}

function GateCard({ gate }: { gate: GateBar }) {
  const at = Math.max(-1, Math.min(1, gate.log_e / (gate.need || 1)));
  return (
    <section class="card">
      <header><h2>Gate {gate.k}</h2><span class="mono faint" title={gate.candidate}>{short(gate.candidate)}</span><span class="soft small push num">{gate.pairs} of at most {gate.max_pairs} pairs</span></header>
      <div class="body">
        <div class="evidence" role="img" aria-label={`log evidence ${gate.log_e.toFixed(2)}, threshold ${gate.need.toFixed(2)}`}>
          <i style={{ left: `${50 + 50 * at}%` }} />
        </div>
        <div class="ends"><span>reject</span><span>promote</span></div>
        <p class="soft small num" {...defined("Log evidence")} style={{ marginTop: "0.35rem" }}>
          Log evidence {gate.log_e.toFixed(2).replace("-", "−")} (threshold {gate.need.toFixed(2)}). The candidate won {gate.wins} pair{gate.wins === 1 ? "" : "s"} and lost {gate.losses}.
          {forecast(gate)}
        </p>
      </div>
    </section>
  );
}

function forecast(gate: GateBar): string {
  if (!gate.more) return "";
  const within = gate.pairs + gate.more <= gate.max_pairs;
  return within ? ` Decision expected after about ${gate.more} more pair${gate.more > 1 ? "s" : ""}.` : " At this rate the remaining pairs do not reach the threshold.";
}

function LearnerCard({ learner }: { learner: LearnerBar | undefined }) {
  if (!learner) return <section class="card"><header><h2>Learner</h2></header><div class="body soft">Waiting for new episodes.</div></section>;
  const share = learner.total ? learner.done / learner.total : 0;
  return (
    <section class="card">
      <header><h2>Learner</h2><span class="soft small push">{learner.stage}</span></header>
      <div class="body">
        <div class="progress" role="progressbar" aria-valuenow={Math.round(100 * share)} aria-label="learner"><i style={{ width: `${100 * share}%` }} /></div>
        <div class="ends num"><span>{learner.total > 1 ? `${whole(learner.done)} of ${whole(learner.total)} steps` : "starting"}</span><span>robots keep running</span></div>
      </div>
    </section>
  );
}

/** Outside of the components, so that it stays the same: then only the lines whose station changed are drawn again. */
function toggle(name: string): void {
  const next = new Set(chosen.value);
  if (!next.delete(name)) next.add(name);
  chosen.value = next;
}

function Stations({ stations }: { stations: Station[] }) {
  const picked = stations.filter((station) => chosen.value.has(station.name));
  const act = (kind: CommandKind) => picked.forEach((station) => void command(kind, station.name));
  return (
    <section class="pile stations" aria-label="Stations">
      <div class="head">
        <h2>Stations <span class="faint">{stations.length || ""}</span></h2>
        {stations.length >= MANY && (
          <span class="push acts">
            {picked.length > 0 && <span class="soft small">{picked.length} selected</span>}
            {picked.length > 0 && mayCommand.value && <button disabled={stale.value} onClick={() => act("pause")}>‖ Pause</button>}
            {picked.length > 0 && mayCommand.value && <button disabled={stale.value} onClick={() => act("resume")}>▶ Resume</button>}
            {picked.length > 0 && <button onClick={() => act("stop")}>■ Stop</button>}
            <WallSwitch stations={stations.length} />
            {!isDense(stations.length) && stations.some((one) => one.cameras.length > 0) && (
              <button class="quiet" aria-pressed={showPictures.value} onClick={togglePictures}>{showPictures.value ? "Hide live images" : "Show live images"}</button>
            )}
            <button class="quiet" onClick={() => (chosen.value = picked.length ? new Set() : new Set(stations.map((one) => one.name)))}>
              {picked.length ? "Select none" : "Select all"}
            </button>
          </span>
        )}
      </div>
      {stations.length ? isDense(stations.length) ? <Wall stations={stations} chosen={chosen.value} toggle={toggle} /> : (
        <div class="tiles">
          {stations.map((station) => (
            <Tile key={station.name} station={station} chosen={chosen.value.has(station.name)} toggle={toggle} />
          ))}
        </div>
      ) : (
        <div class="card">
          <Empty title="No station has joined yet">
            <span>Simulated stations start by themselves, in some seconds. A robot's station joins when <code>enpire station FILE</code> runs on its computer.</span>
          </Empty>
        </div>
      )}
    </section>
  );
}

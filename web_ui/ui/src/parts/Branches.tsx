/** Branches: experiments with robot time of their own, search beside gate. */

import { percent, seconds, short, whole } from "../format";
import type { Arm, Branch, Branches as All, CampaignView } from "../types";
import { ideaWord, reasonWord, ROBOT_USES } from "../words";
import { changesText } from "./ideaLayout";
import { Pill, Rate } from "./Pieces";
import { Th } from "./Terms";

const GAIN = "Mean difference of the scores of its newest version and the champion, on the train starts that both acted on, with its 80 % interval. A failure scores 0, a success from 0.5 (at the time limit) to 1 (at once).";
const PER_HOUR = "Difference in success (at its gate, else on common train starts) per robot-hour of its search rollouts and of all trials of its gates, in percentage points. The interval is the confidence sequence of the gate, else the 80 % interval on train starts.";

export function Branches({ of }: { of: CampaignView }) {
  const all = of.branches;
  if (!all) return null;
  const numbers = new Map(all.branches.map((one) => [one.id, one.number]));
  return (
    <section class="card" aria-label="Branches">
      <header>
        <h2>Branches <span class="faint">{all.branches.length}</span></h2>
        <span class="soft small push">robots act for {all.acting} · agent sessions share: {all.sharing || "adopt"}</span>
      </header>
      <p class="body soft small num">Robot time: {uses(all)}</p>
      {all.arms.map((one) => <p key={one.lanes.join()} class="body soft small num">{armText(one)}</p>)}
      <div class="flush scroll">
        <table>
          <thead>
            <tr>
              <Th of="#" /><th>Regime</th><th>State</th><th>Learned from</th><th>Search, train starts</th>
              <th class="right" title={GAIN}>Gain over the champion</th><th>Gate, hidden starts</th>
              <th class="right" title="Time of its own search rollouts, summed over all robots; below it that of its gates, both sides">Robot time</th><th class="right" title={PER_HOUR}>pt / robot-h</th>
            </tr>
          </thead>
          <tbody>{all.branches.map((one) => <Row key={one.id} of={one} continues={numbers.get(one.continues)} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

const uses = (all: All): string =>
  Object.entries(ROBOT_USES).filter(([use]) => all.robot_time[use]).map(([use, word]) => `${word} ${seconds(all.robot_time[use])}`).join(" · ") || "none yet";

function Row({ of, continues }: { of: Branch; continues: number | undefined }) {
  const state = of.phase === "over" ? of.decision || "cancelled" : of.phase;
  return (
    <tr>
      <td class="right faint">{of.number}</td>
      <td title={of.statement}>
        <b>{of.regime}</b> <span class="soft small">{changesText(of.changes)}</span>
        <div class="faint small">{of.rollouts_alone ? "learns from the rollouts of " : continues ? "continues " : of.parent ? "from " : ""}{continues ? `branch ${continues}` : of.parent ? <><span class="mono" title={of.parent}>{short(of.parent)}</span></> : "from no version"} · {of.lane}</div>
      </td>
      <td><Pill of={ideaWord(state)} /> <span class="soft small">{of.phase === "over" ? reasonWord(of.why) : of.share ? `share ${percent(of.share, 0)}` : ""}</span></td>
      <td class="small nowrap">{typeof of.episodes === "number" ? <>{whole(of.episodes)} episodes{sources(of).map((one) => <div key={one} class="faint">{one}</div>)}<div class="faint">{of.turns} turn{of.turns === 1 ? "" : "s"}</div></> : <span class="faint">–</span>}</td>
      <td><Rate of={of.search} />{typeof of.median === "number" && <div class="faint small num">median {of.median} commands</div>}</td>
      <Gain of={of} />
      <td><Gate of={of} /></td>
      <td class="right nowrap">{seconds(of.robot_s)}{of.gate_s > 0 && <div class="faint small">gates {seconds(of.gate_s)}</div>}<div class="faint small">learner {seconds(of.learner_s)}</div>{of.tokens > 0 && <div class="faint small" title="of language models, to propose it and while it was undecided">{whole(of.tokens)} tokens{Object.entries(of.money).map(([currency, amount]) => `, ${amount.toFixed(2)} ${currency}`)}</div>}</td>
      <PerHour of={of} />
    </tr>
  );
}

const signed = (value: number, digits: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

const points = (mean: number, low?: number | null, high?: number | null) => `${signed(100 * mean, 1)} [${signed(100 * (low ?? 0), 1)}, ${signed(100 * (high ?? 0), 1)}]`;

/** One arm: its sessions, and what its best version gained over the base. */
function armText(one: Arm): string {
  const name = `Arm ${one.lanes.join(", ")} (robot ${seconds(one.robot_s)})`;
  if (typeof one.success !== "number") return `${name}: no version has enough train starts in common with the base`;
  const hourly = typeof one.per_robot_h === "number" ? `, ${points(one.per_robot_h, one.per_robot_h_low, one.per_robot_h_high)} per robot-hour` : "";
  return `${name}: best ${short(one.version)}, ${points(one.success, one.low, one.high)} points over the base on ${one.n} train starts${hourly}`;
}

/** Whose rollouts its last training run learned from. */
function sources({ sources: found }: Branch): string[] {
  const named: [number, string][] = found ? [[found.demonstrations, "demonstrations"], [found.own, "of its own"], [found.ancestors, "of its ancestors"], [found.others, "of others"]] : [];
  return named.filter(([n]) => n > 0).map(([n, of]) => `${whole(n)} ${of}`);
}

function PerHour({ of: { gain_per_robot_h: found } }: { of: Branch }) {
  if (!found) return <td class="right faint">–</td>;
  return (
    <td class="right nowrap num" title={found.at === "gate" ? "at its gate" : "on train starts"}>
      <b>{signed(100 * found.success, 1)}</b>
      <div class="faint small">[{signed(100 * found.low, 1)}, {signed(100 * found.high, 1)}]</div>
    </td>
  );
}

function Gain({ of: { gain } }: { of: Branch }) {
  if (!gain) return <td class="right faint">–</td>;
  return (
    <td class="right nowrap num">
      <b>{signed(gain.mean, 2)}</b> <span class="faint small">[{signed(gain.low, 2)}, {signed(gain.high, 2)}]</span>
      <div class="faint small">{gain.n} starts</div>
    </td>
  );
}

function Gate({ of: { gate } }: { of: Branch }) {
  if (!gate) return <span class="faint">–</span>;
  if (!gate.success.n) return <span class="soft small">deciding</span>;
  return (
    <>
      <Rate of={gate.success} />
      {typeof gate.difference === "number" && <div class="faint small num">{signed(100 * gate.difference, 1)} pt over the champion</div>}
    </>
  );
}

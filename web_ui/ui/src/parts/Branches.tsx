/** Branches: experiments with robot time of their own, search beside gate. */

import { percent, seconds, short, whole } from "../format";
import type { Branch, Branches as All, CampaignView } from "../types";
import { ideaWord, reasonWord, ROBOT_USES } from "../words";
import { changesText } from "./ideaLayout";
import { Pill, Rate } from "./Pieces";
import { Th } from "./Terms";

const GAIN = "Mean difference of the scores of its newest version and the champion, on the train starts that both acted on, with its 80 % interval. A failure scores 0, a success from 0.5 (at the time limit) to 1 (at once).";
const PER_HOUR = "Difference in success (at its gate, else on common train starts) per robot-hour of its search rollouts, in percentage points";

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
      <div class="flush scroll">
        <table>
          <thead>
            <tr>
              <Th of="#" /><th>Regime</th><th>State</th><th>Learned from</th><th>Search, train starts</th>
              <th class="right" title={GAIN}>Gain over the champion</th><th>Gate, hidden starts</th>
              <th class="right" title="Time of its own search rollouts, summed over all robots">Robot time</th><th class="right" title={PER_HOUR}>pt / robot-h</th>
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
        <div class="faint small">{continues ? `continues branch ${continues}` : of.parent ? <>from <span class="mono" title={of.parent}>{short(of.parent)}</span></> : "from no version"} · {of.lane}</div>
      </td>
      <td><Pill of={ideaWord(state)} /> <span class="soft small">{of.phase === "over" ? reasonWord(of.why) : of.share ? `share ${percent(of.share, 0)}` : ""}</span></td>
      <td class="small nowrap">{typeof of.episodes === "number" ? <>{whole(of.episodes)} episodes<div class="faint">{of.learns_from === "pool" ? "of all branches" : "of its own"} · {of.turns} turn{of.turns === 1 ? "" : "s"}</div></> : <span class="faint">–</span>}</td>
      <td><Rate of={of.search} />{typeof of.median === "number" && <div class="faint small num">median {of.median} commands</div>}</td>
      <Gain of={of} />
      <td><Gate of={of} /></td>
      <td class="right nowrap">{seconds(of.robot_s)}<div class="faint small">learner {seconds(of.learner_s)}</div>{of.tokens > 0 && <div class="faint small" title="of language models, since the branch before of this agent session">{whole(of.tokens)} tokens{Object.entries(of.money).map(([currency, amount]) => `, ${amount.toFixed(2)} ${currency}`)}</div>}</td>
      <td class="right">{typeof of.gain_per_robot_h === "number" ? signed(100 * of.gain_per_robot_h, 1) : <span class="faint">–</span>}</td>
    </tr>
  );
}

const signed = (value: number, digits: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

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

/** Take over a robot from the page, and give it back. */

import { useEffect } from "preact/hooks";
import { stale } from "../clock";
import { actions, giveBack, hold, KEYS, lost, speed, takeOver } from "../handControl";
import { percent } from "../format";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { CampaignView, Station } from "../types";
import { defined } from "./Terms";
import { TouchPads } from "./TouchPads";
import { useGet } from "./use";

const SENTENCES = {
  connecting: "Asking the station…",
  waiting: "You take over when the first robot begins its next demonstration or supervised rollout.",
  moving: "You move the first robot. Release all keys, and it holds.",
};

function moverText(mover: string): string {
  if (!mover) return "Nothing moves the robot now.";
  if (mover === "people") return "The robot waits for you: take over and demonstrate the task.";
  if (mover === "operator") return "Another operator moves the robot.";
  return mover === "reset" || mover === "home" ? "A reset moves the robot." : "The policy moves the robot.";
}

export function TakeOver({ station }: { station: Station }) {
  useEffect(() => giveBack, [station.name]); // leaving the page gives the robot back
  if (!mayCommand.value) return null;
  const held = hold.value !== "none";
  return (
    <section class={`card ${hold.value === "moving" ? "holding" : ""}`} aria-label="Take over">
      <header><h2>Take over</h2><span class="soft small push" role="status" data-hold={hold.value}>{hold.value === "none" ? moverText(station.moved_by ?? "") : SENTENCES[hold.value]}</span></header>
      <div class="body pile">
        {lost.value && <div class="notice warn" role="alert">{lost.value}</div>}
        <div class="acts">
          {held ? <button class="primary" onClick={giveBack}>Give back <kbd>Esc</kbd></button> : <button disabled={stale.value} onClick={() => takeOver(station.name)}>☝ Take over</button>}
          <label class="field beside">Speed <input type="range" min={5} max={100} step={5} value={100 * speed.value} onInput={(event) => (speed.value = event.currentTarget.valueAsNumber / 100)} aria-label="Speed in percent" /> <span class="num">{Math.round(100 * speed.value)} %</span></label>
        </div>
        <WhenToIntervene station={station} held={held} />
        {held && actions.value.length > 0 && <TouchPads actions={actions.value} />}
        {held && actions.value.length > 0 && (
          <dl class="pairs keys">
            {actions.value.slice(0, KEYS.length).map((name, index) => <><dt>{name}</dt><dd><kbd>{KEYS[index]![0]}</kbd> less, <kbd>{KEYS[index]![1]}</kbd> more</dd></>)}
          </dl>
        )}
        <p class="faint small">Keys, the sticks of a game pad, or the touch pads. The robot is given back when this window loses the focus; it holds when the connection is silent for three periods. The frames are recorded as an intervention; those of a demonstration, as the demonstration.</p>
      </div>
    </section>
  );
}

/** Below this probability of success, the page suggests to intervene. */
const LOW = 0.3;

/** The predicted probability of success of the rollout that may be taken over, and how far such predictions are off. */
function WhenToIntervene({ station, held }: { station: Station; held: boolean }) {
  const campaign = fleet.value?.campaign?.id ?? "", version = station.moved_by === "operator" ? station.deployed : station.moved_by ?? "";
  const view = useGet<CampaignView>(station.viability == null || !campaign ? "" : `/campaigns/${campaign}`, version);
  if (station.viability == null) return null;
  const trained = view.value?.rounds.find((round) => round.candidate === version)?.learner;
  const metrics = trained?.figures;
  const off = metrics?.["p_v_reliability"];
  const low = station.viability < LOW;
  return (
    <p class={`small ${low ? "problem" : ""}`} data-viability={station.viability} {...defined("p_v")}>
      {low && !held ? "☝ Consider taking over: " : ""}predicted success <b class="num">{percent(station.viability, 0)}</b> (p_v){" "}
      <span class="soft" {...defined("Calibration error of p_v")}>
        {off === undefined || !Number.isFinite(off) ? "reliability not measured for this version" : `predictions of this version are off by ${(100 * off).toFixed(1)} pt on average`}
      </span>
    </p>
  );
}

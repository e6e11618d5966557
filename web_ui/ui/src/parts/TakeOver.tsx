/** Take over a robot from the page, and give it back. */

import { useEffect } from "preact/hooks";
import { stale } from "../clock";
import { actions, giveBack, hold, KEYS, lost, speed, takeOver } from "../handControl";
import { mayCommand } from "../session";

const SENTENCES = {
  none: "The policy moves the robot.",
  connecting: "Asking the station…",
  waiting: "You take over at the next supervised rollout of the first robot. Until then the policy moves.",
  moving: "You move the first robot. Release all keys, and it holds.",
};

export function TakeOver({ station }: { station: string }) {
  useEffect(() => giveBack, [station]); // leaving the page gives the robot back
  if (!mayCommand.value) return null;
  const held = hold.value !== "none";
  return (
    <section class={`card ${hold.value === "moving" ? "holding" : ""}`} aria-label="Take over">
      <header><h2>Take over</h2><span class="soft small push" role="status" data-hold={hold.value}>{SENTENCES[hold.value]}</span></header>
      <div class="body pile">
        {lost.value && <div class="notice warn" role="alert">{lost.value}</div>}
        <div class="acts">
          {held ? <button class="primary" onClick={giveBack}>Give back <kbd>Esc</kbd></button> : <button disabled={stale.value} onClick={() => takeOver(station)}>☝ Take over</button>}
          <label class="field beside">Speed <input type="range" min={5} max={100} step={5} value={100 * speed.value} onInput={(event) => (speed.value = event.currentTarget.valueAsNumber / 100)} aria-label="Speed in percent" /> <span class="num">{Math.round(100 * speed.value)} %</span></label>
        </div>
        {held && actions.value.length > 0 && (
          <dl class="pairs keys">
            {actions.value.slice(0, KEYS.length).map((name, index) => <><dt>{name}</dt><dd><kbd>{KEYS[index]![0]}</kbd> less, <kbd>{KEYS[index]![1]}</kbd> more</dd></>)}
          </dl>
        )}
        <p class="faint small">Keys, or the sticks of a game pad. The robot is given back when this window loses the focus; it holds when the connection is silent for three periods. The frames count as an intervention.</p>
      </div>
    </section>
  );
}

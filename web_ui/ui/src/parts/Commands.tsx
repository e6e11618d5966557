/** Commands and their states: requested → accepted → effective. */

import { stale } from "../clock";
import { command } from "../command";
import { mayCommand } from "../session";
import { commands, fleet } from "../socket";
import type { Command, CommandKind } from "../types";
import { clock, seconds, short } from "../format";
import { commandWord } from "../words";

const AT_STATIONS = new Set(["pause", "resume", "stop", "service", "service done", "reset", "home"]);
const WAY = ["requested", "accepted", "effective"] as const;

export function CommandList() {
  const all = Object.values(commands.value ?? {}).sort((a, b) => a.requested_ms - b.requested_ms);
  if (!all.length) return null;
  const shown = all.slice(-6).reverse();
  const times = all.filter((one) => one.verb === "stop" && one.state === "effective").flatMap((one) => one.took_s ?? []).sort((a, b) => a - b);
  const slowest = times[Math.max(0, Math.ceil(0.95 * times.length) - 1)];
  return (
    <section class="card">
      <header>
        <h2>Commands</h2>
        {slowest !== undefined && <span class="soft small push num">stop effective within {seconds(slowest)} (p95 of {times.length})</span>}
      </header>
      <div class="body">
        <ul class="commands">{shown.map((one) => <CommandRow key={one.id} of={one} />)}</ul>
      </div>
    </section>
  );
}

/** What takes a command back. Stops, promotions, rollbacks and ends have none: they are answered by a command of their own. */
const UNDO: Partial<Record<CommandKind, CommandKind>> = {
  "judge success": "judge undo", "judge failure": "judge undo", "judge unsafe": "judge undo", acknowledge: "acknowledge undo",
  "hypothesis pin": "hypothesis unpin", "hypothesis unpin": "hypothesis pin", "hypothesis reject": "hypothesis restore",
  "pause campaign": "continue campaign", "continue campaign": "pause campaign", pause: "resume", service: "service done",
};

/** Undo, beside the newest effective command of its target; a later command of that target has to be undone first. */
function Undo({ of }: { of: Command }) {
  const back = UNDO[of.verb];
  if (!back || of.state !== "effective" || !mayCommand.value || !fleet.value?.campaign) return null;
  const subject = (verb: string) => verb.split(" ")[0];
  const later = Object.values(commands.value ?? {}).some((one) => one.target === of.target && one.requested_ms > of.requested_ms && one.state !== "refused" && (subject(one.verb) === subject(of.verb) || one.verb === back));
  if (later) return null;
  return <button class="quiet small" disabled={stale.value} onClick={() => void command(back, of.target)} title={`Send the command “${commandWord(back)}”; both stay in the ledger`}>↶ Undo</button>;
}

/** The last command of some kinds with one target. */
export function LastCommand({ kinds, target }: { kinds: string[]; target: string }) {
  const last = Object.values(commands.value ?? {}).filter((one) => kinds.includes(one.verb) && one.target === target).at(-1);
  return last ? <ul class="commands"><CommandRow of={last} /></ul> : null;
}

function CommandRow({ of }: { of: Command }) {
  const reached = WAY.indexOf(of.state as (typeof WAY)[number]);
  return (
    <li data-command={of.verb} data-state={of.state} data-id={of.id}>
      <span class="faint small num">{clock(of.requested_ms)}</span>
      <span><b>{commandWord(of.verb)}</b> {of.target ? (of.target.length > 20 ? short(of.target) : of.target) : AT_STATIONS.has(of.verb) ? "all stations" : ""} <span class="faint small">by {of.by}{of.reason && `: ${of.reason}`}</span></span>
      <span class="steps push">
        {of.state === "refused" ? <b class="refused">✕ refused{of.why && `: ${of.why}`}</b> : WAY.map((step, index) => (
          <>
            {index > 0 && <span aria-hidden="true">→</span>}
            <b class={index <= reached ? "done" : ""}>{index <= reached ? "✓ " : ""}{step}</b>
          </>
        ))}
        {of.state === "accepted" && of.why && <b class="refused">{of.why}</b>}
        <Undo of={of} />
        {of.took_s !== undefined && of.state === "effective" && <span class="num">in {seconds(of.took_s)}</span>}
      </span>
    </li>
  );
}

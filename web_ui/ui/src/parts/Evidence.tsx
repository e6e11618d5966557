/** One hypothesis opened: its evidence, and what an operator may do with it. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { stale } from "../clock";
import { command, question } from "../command";
import { percent, seconds } from "../format";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { Branch, CampaignView, CommandKind, Experiment, GateView, Idea } from "../types";
import { decisionWord, reasonWord } from "../words";
import { askToClear, askToQuarantine } from "./Approvals";
import { changesText, newest } from "./ideaLayout";
import { bare } from "./Pieces";

/** What is known about a hypothesis: claim and test, every try with its numbers, cost, doubts. */
export function EvidenceCard({ idea, of }: { idea: Idea; of: CampaignView }) {
  const rows: [string, string, string?][] = [
    ["Falsifier", idea.falsifier, "The result that would show that the hypothesis is wrong"],
    ["Proposed by", `${idea.author}, ${idea.lane === "human" ? "operator" : `agent session ${idea.lane}`}; ${idea.kind}, ${idea.regime}`],
    ...(idea.mark ? [[idea.mark === "pinned" ? "Pinned" : "Rejected", `by ${idea.marked_by}${idea.marked_why ? `: ${idea.marked_why}` : ""}`] as [string, string]] : []),
    ...of.quarantine.filter((one) => idea.experiments.some(({ id }) => id === one.experiment_id)).map((one): [string, string] => ["Quarantine", `${one.tripwire}: ${one.why}${one.cleared_by ? `; cleared by ${one.cleared_by}: ${one.reason}` : ""}`]),
  ];
  return (
    <div class="evidence-card">
      <dl class="pairs">{rows.map(([name, value, what]) => <><dt title={what}>{name}</dt><dd>{value}</dd></>)}</dl>
      {idea.experiments.map((one) => <Try key={one.id} one={one} of={of} />)}
      {!idea.experiments.length && <p class="soft small">No experiment has tested it.</p>}
    </div>
  );
}

/** One experiment: the change, search against gate, the pairs of its gate, its cost. */
function Try({ one, of }: { one: Experiment; of: CampaignView }) {
  const gate = of.gates.find(({ id }) => id === one.gate_id), branch = of.branches?.branches.find(({ id }) => id === one.id);
  const rows: [string, string, string?][] = [
    ["Changes", changesText(one.changes) || (one.commit ? "code" : "none")],
    ...(one.phase === "invalid" ? [["Invalid", one.why] as [string, string]] : []),
    ...(one.rerun_of ? [["Tries again", `experiment ${one.rerun_of.slice(-6)}, with other hidden starts`] as [string, string]] : []),
    ...(branch ? [["Search against gate", searchText(branch), "Gain on train starts, where the branch was chosen, beside the gain on hidden starts, which count"] as [string, string, string]] : []),
    ...(gate ? [["Gate", gateText(gate), "Pairs of trials from the same hidden starts; the interval holds at every stop"] as [string, string, string]] : []),
    ...(branch ? [["Cost", `${seconds(branch.robot_s)} robot time, ${seconds(branch.learner_s)} training, ${branch.turns} training run${branch.turns === 1 ? "" : "s"}`] as [string, string]] : []),
    ...(one.adopted_by.length ? [["Adopted by", one.adopted_by.join(", ")] as [string, string]] : []),
  ];
  return (
    <section class="try" aria-label={`Experiment ${one.id}`}>
      <h3 class="small">Experiment <span class="mono">{one.id.slice(-6)}</span></h3>
      <dl class="pairs">{rows.map(([name, value, what]) => <><dt title={what}>{name}</dt><dd>{value}</dd></>)}</dl>
      {one.policy_id && <p class="small"><a href={`/episodes?campaign=${of.id}&policy=${one.policy_id}&purpose=gate`}>Trials of its gate</a></p>}
    </section>
  );
}

function gateText(gate: GateView): string {
  const decided = gate.decision !== "open" && gate.decision !== "dropped";
  const difference = decided && gate.pairs && typeof gate.difference_low === "number" && typeof gate.difference_high === "number"
    ? `, ${bare((gate.wins - gate.losses) / gate.pairs)} pt [${bare(gate.difference_low)}, ${bare(gate.difference_high)}]` : "";
  const rates = gate.candidate_success.n ? `; candidate ${percent(gate.candidate_success.success)}, champion ${percent(gate.champion_success.success)}` : "";
  return `${decisionWord(gate.decision).word}${gate.reason ? ` (${reasonWord(gate.reason)})` : ""}: ${gate.wins} won, ${gate.losses} lost of ${gate.pairs} pairs${difference}${rates}`;
}

function searchText({ gain, gate }: Branch): string {
  const search = gain ? `search ${bare(gain.success)} pt on ${gain.n} train starts` : "search not measured";
  const known = gate && typeof gate.difference === "number" && typeof gate.low === "number" && typeof gate.high === "number";
  return `${search}; ${known ? `gate ${bare(gate.difference!)} pt [${bare(gate.low!)}, ${bare(gate.high!)}] on hidden starts` : "gate not decided"}`;
}

const ask = (title: string, text: string, act: string, kind: CommandKind, target: string) => (question.value = { title, text, act, kind, target, reasoned: true });

/** Reject, pin, rerun, quarantine; each takes effect in the loop and is an event of the ledger. */
export function IdeaCommands({ idea, of }: { idea: Idea; of: CampaignView }) {
  if (fleet.value?.campaign?.id !== of.id || !mayCommand.value) return null;
  const last = newest(idea), held = of.quarantine.find((one) => !one.cleared_by && (one.experiment_id === last?.id || (one.policy_id && one.policy_id === last?.policy_id)));
  const off = stale.value, over = last && ["decided", "cancelled", "invalid"].includes(last.phase);
  const reject = () => ask("Reject this hypothesis?", "Its experiments that wait are cancelled, its branches end, and no experiment may test it until an operator restores it. An open gate decides all the same. Agents read the reason.", "Reject", "hypothesis reject", idea.id);
  const rerun = () => ask("Try this experiment again?", "Its recipe is trained anew and compared with the champion of that time, on other hidden starts. It uses one of the campaign's gates.", "Rerun", "experiment rerun", last!.id);
  return (
    <div class="small acts" role="group" aria-label="Commands to this hypothesis">
      {idea.mark === "rejected"
        ? <button disabled={off} onClick={() => void command("hypothesis restore", idea.id)}>↶ Restore</button>
        : <>
            <button disabled={off} onClick={() => void command(idea.mark ? "hypothesis unpin" : "hypothesis pin", idea.id)} title="Experiments of a pinned hypothesis are tried before all others">{idea.mark ? "Unpin" : "★ Pin"}</button>
            <button disabled={off} onClick={reject}>✕ Reject</button>
            {over && !last.commit && <button disabled={off} onClick={rerun}>↻ Rerun</button>}
          </>}
      {last && !held && <button disabled={off} onClick={() => askToQuarantine(last.id)}>Quarantine</button>}
      {held && <button disabled={off} onClick={() => askToClear(held.subject)}>✓ Clear the quarantine</button>}
    </div>
  );
}

/** The form of an operator's proposal. */
export function ProposeDialog({ close }: { close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => box.current?.showModal(), []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(event.target as HTMLFormElement);
    void command("hypothesis propose", String(data.get("changes")).trim(), String(data.get("statement")).trim());
    close();
  };
  return (
    <dialog ref={box} onClose={close} aria-labelledby="propose">
      <form onSubmit={submit} class="pile">
        <h2 id="propose">Propose a hypothesis</h2>
        <p class="soft small">Its experiment is trained and gated like one of an agent. Settings outside the search space of the recipe are refused.</p>
        <label class="field">Statement<input name="statement" required pattern=".*\S.*" maxLength={300} autocomplete="off" placeholder="more passes find more successes" /></label>
        <label class="field">Changed settings<input name="changes" required pattern="(\S+=\S+\s*)+" maxLength={200} autocomplete="off" placeholder="passes=8 cooling=0.9" title="SETTING=VALUE, separated by spaces; regime=NAME chooses a recipe of branches" /></label>
        <div class="row"><button type="button" onClick={close}>Cancel</button><button class="primary">Propose</button></div>
      </form>
    </dialog>
  );
}

/** Hypotheses of agents and their results: the tree over time, and a table. */

import { useState } from "preact/hooks";
import { whole } from "../format";
import { stale } from "../clock";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { Branch, CampaignView, CodeDiff, Experiment, GateView, Idea } from "../types";
import { decisionWord, ideaWord, reasonWord } from "../words";
import { askToClear, askToQuarantine } from "./Approvals";
import { IdeaTree } from "./IdeaTree";
import { changesText, newest, numbered, stateOf } from "./ideaLayout";
import { Pill } from "./Pieces";
import { useGet } from "./use";

const EDGES: Record<string, string> = {
  parent: "builds on", inspired_by: "inspired by", adopts: "adopts", refutes: "refutes", supersedes: "supersedes",
};

export function Ideas({ of }: { of: CampaignView }) {
  const [chosen, pick] = useState("");
  if (!of.ideas.length) return <p class="faint small">No agent has proposed a hypothesis in this campaign.</p>;
  const choose = (id: string) => {
    pick(id === chosen ? "" : id);
    document.getElementById(`idea-${id}`)?.scrollIntoView({ block: "nearest" });
  };
  const kinds = [...new Set(of.ideas.flatMap((idea) => [...(idea.parents.length ? ["parent"] : []), ...idea.edges.map(([kind]) => kind)]))];
  const spent = of.tokens.fresh + of.tokens.cached + of.tokens.output;
  return (
    <section class="card" aria-label="Hypotheses">
      <header>
        <h2>Hypotheses <span class="faint">{of.ideas.length}</span></h2>
        <span class="soft small">{spent ? `${whole(spent)} tokens, ${whole(of.tokens.cached)} of them cached` : "no tokens used"}</span>
        <span class="legend push">
          {kinds.map((kind) => <span><svg width="26" height="8" aria-hidden="true"><path class={`edge ${kind}`} d="M1 4H25" /></svg>{EDGES[kind] ?? kind}</span>)}
          <span><i class="stairs" />champion, all trials on hidden starts</span>
          <span><b aria-hidden="true">○</b> candidate in its gate, with the number of its hypothesis</span>
          <span><i style={{ background: "var(--ok)" }} />goal</span>
        </span>
      </header>
      <div class="body"><IdeaTree of={of} chosen={chosen} choose={choose} /></div>
      <div class="flush scroll"><Table of={of} chosen={chosen} choose={choose} /></div>
    </section>
  );
}

function Table({ of, chosen, choose }: { of: CampaignView; chosen: string; choose: (id: string) => void }) {
  const numbers = new Map(numbered(of.ideas).map(([idea, number]) => [idea.id, number]));
  const gates = new Map(of.gates.map((gate) => [gate.id, gate]));
  const most = Math.max(0.1, ...of.ideas.flatMap((idea) => [newest(idea)?.low ?? 0, newest(idea)?.high ?? 0]).map(Math.abs));
  return (
    <table>
      <thead><tr><th class="right">#</th><th>Hypothesis</th><th>Agent session</th><th>State</th><th>Gate</th><th class="right">Effect on hidden starts</th><th>95 % interval</th></tr></thead>
      <tbody>
        {of.ideas.map((idea) => (
          <>
            <tr class={`pick ${idea.id === chosen ? "on" : ""}`} id={`idea-${idea.id}`} key={idea.id} onClick={() => choose(idea.id)}>
              <td class="right faint">{numbers.get(idea.id)}</td>
              <td class="said" style={{ paddingLeft: `${0.7 + 1.1 * Math.min(idea.depth, 6)}rem` }}>
                <button class="link" aria-expanded={idea.id === chosen}>{idea.depth ? "↳ " : ""}{idea.statement}</button>
                <span class="faint small"> {lines(idea, numbers)}</span>
              </td>
              <td class="soft nowrap">{idea.lane}</td>
              <State idea={idea} gate={gates.get(newest(idea)?.gate_id ?? "")} />
              <Effect of={newest(idea)} most={most} />
            </tr>
            {idea.id === chosen && <Details idea={idea} of={of} />}
          </>
        ))}
      </tbody>
    </table>
  );
}

/** The state of an idea and the result of its gate. */
function State({ idea, gate }: { idea: Idea; gate: GateView | undefined }) {
  const decided = gate && gate.decision !== "open" && gate.decision !== "dropped";
  return (
    <>
      <td class="said"><Pill of={ideaWord(stateOf(idea))} /> {!gate && <span class="soft small">{newest(idea)?.why}</span>}</td>
      <td class="small num">
        {gate ? (
          <>{decisionWord(gate.decision).word}{decided && <span class="soft">: {reasonWord(gate.reason)}, {gate.wins} won, {gate.losses} lost of {gate.pairs} pairs</span>}</>
        ) : <span class="faint">–</span>}
      </td>
    </>
  );
}

/** The edges of an idea as text; the indent shows its first parent. */
function lines(idea: Idea, numbers: Map<string, number>): string {
  const edges = [...idea.parents.slice(1).map((one): [string, string] => ["parent", one]), ...idea.edges];
  return edges.map(([kind, one]) => `${EDGES[kind] ?? kind} ${numbers.get(one) ?? "an older hypothesis"}`).join(" · ");
}

const points = (value: number) => `${value >= 0 ? "+" : "−"}${Math.abs(100 * value).toFixed(1)}`;

/** The effect and its interval on an axis from -`most` to +`most`. */
function Effect({ of, most }: { of: Experiment | undefined; most: number }) {
  const { delta, low, high } = of ?? {};
  if (typeof delta !== "number" || typeof low !== "number" || typeof high !== "number") return <><td class="right faint">–</td><td /></>;
  const put = (value: number) => `${(50 + (50 * value) / most).toFixed(2)}%`;
  return (
    <>
      <td class="right"><b>{points(delta)}</b> <span class="faint small">pt</span></td>
      <td>
        <div class="beside"><div class="effect" role="img" aria-label={`${points(low)} to ${points(high)} points`} title={`${points(low)} to ${points(high)} points`}>
          <b style={{ left: put(low), width: `${(50 * (high - low)) / most}%` }} /><i style={{ left: put(delta) }} />
        </div>
        <span class="faint small num">{points(low)} … {points(high)}</span></div>
      </td>
    </>
  );
}

function Details({ idea, of }: { idea: Idea; of: CampaignView }) {
  const last = newest(idea), held = of.quarantine.find((one) => !one.cleared_by && (one.experiment_id === last?.id || one.policy_id === last?.policy_id));
  const branch = of.branches?.branches.find((one) => one.id === last?.id);
  const rows: [string, string][] = [
    ["Falsifier", idea.falsifier], ["Kind", `${idea.kind}, ${idea.regime}`], ["Proposed by", `${idea.author}, agent session ${idea.lane}`],
    ...idea.experiments.map((one): [string, string] => ["Changes", changesText(one.changes) || (one.commit ? "code" : "none")]),
    ...idea.experiments.filter((one) => one.phase === "invalid").map((one): [string, string] => ["Invalid", one.why]),
    ...idea.experiments.filter((one) => one.adopted_by.length).map((one): [string, string] => ["Adopted by", one.adopted_by.join(", ")]),
    ...(branch ? [["Search against gate", searchText(branch)] as [string, string]] : []),
    ...of.quarantine.filter((one) => one.experiment_id === last?.id).map((one): [string, string] => ["Quarantine", `${one.tripwire}: ${one.why}${one.cleared_by ? `; cleared by ${one.cleared_by}: ${one.reason}` : ""}`]),
  ];
  const running = fleet.value?.campaign?.id === of.id && mayCommand.value;
  return (
    <tr class="details">
      <td />
      <td colSpan={6}>
        <dl class="pairs">{rows.map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>
        <p class="small acts" style={{ marginTop: "0.4rem" }}>
          {last?.policy_id && <a href={`/episodes?campaign=${of.id}&policy=${last.policy_id}&purpose=gate`}>Trials of its gate</a>}
          {running && last && !held && <button disabled={stale.value} onClick={() => askToQuarantine(last.id)}>Quarantine</button>}
          {running && held && <button disabled={stale.value} onClick={() => askToClear(held.subject)}>✓ Clear the quarantine</button>}
        </p>
        {last?.commit && <Code commit={last.commit} />}
      </td>
    </tr>
  );
}

/** Gain on train starts, where the branch was chosen, beside the gain on hidden starts, which count. */
function searchText({ gain, gate }: Branch): string {
  const search = gain ? `search ${points(gain.success)} pt on ${gain.n} train starts` : "search not measured";
  const known = gate && typeof gate.difference === "number" && typeof gate.low === "number" && typeof gate.high === "number";
  return `${search}; ${known ? `gate ${points(gate.difference!)} pt [${points(gate.low!)}, ${points(gate.high!)}] on hidden starts` : "gate not decided"}`;
}

/** The files of a code candidate; lines that differ from its parent, or from the template, are marked. */
function Code({ commit }: { commit: string }) {
  const { value, problem } = useGet<CodeDiff>(`/code/${commit}`);
  if (problem) return <p class="small problem">{problem}</p>;
  if (!value) return null;
  return (
    <div class="pile">
      <p class="soft small">Code, against {value.against}</p>
      {value.files.map((file) => (
        <details key={file.path}>
          <summary class="mono">{file.path} <span class="soft small">+{file.added} −{file.removed} lines</span></summary>
          <pre class="diff" tabIndex={0} aria-label={`Changes of ${file.path}`}>{file.lines.map((line) => <span class={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>{`${line}\n`}</span>)}</pre>
        </details>
      ))}
    </div>
  );
}

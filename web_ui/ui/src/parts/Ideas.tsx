/** Hypotheses of agents and their results: the tree over time, and a table. */

import { useState } from "preact/hooks";
import { whole } from "../format";
import { stale } from "../clock";
import { anchor } from "../router";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { CampaignView, CodeDiff, Experiment, GateView, Idea } from "../types";
import { decisionWord, ideaWord, reasonWord } from "../words";
import { AttributionChart } from "./Attribution";
import { EvidenceCard, IdeaCommands, ProposeDialog } from "./Evidence";
import { IdeaTree } from "./IdeaTree";
import { bare as points } from "./Pieces";
import { newest, numbered, stateOf } from "./ideaLayout";
import { Pill } from "./Pieces";
import { Th } from "./Terms";
import { useGet } from "./use";

const EDGES: Record<string, string> = {
  parent: "builds on", inspired_by: "inspired by", adopts: "adopts", refutes: "refutes", supersedes: "supersedes",
};

export function Ideas({ of }: { of: CampaignView }) {
  const [chosen, pick] = useState(() => (anchor().startsWith("idea-") ? anchor().slice(5) : ""));
  const [proposing, propose] = useState(false);
  const running = fleet.value?.campaign?.id === of.id && mayCommand.value;
  const form = running && <><button class="push" disabled={stale.value} onClick={() => propose(true)}>+ Propose a hypothesis</button>{proposing && <ProposeDialog close={() => propose(false)} />}</>;
  if (!of.ideas.length) return <section class="card" aria-label="Hypotheses"><header><h2>Hypotheses</h2>{form}</header><p class="body soft small">No agent and no operator has proposed a hypothesis in this campaign.</p></section>;
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
        {form}
        <span class="legend">
          {kinds.map((kind) => <span><svg width="26" height="8" aria-hidden="true"><path class={`edge ${kind}`} d="M1 4H25" /></svg>{EDGES[kind] ?? kind}</span>)}
          <span><i class="stairs" />champion, all trials on hidden starts</span>
          <span><b aria-hidden="true">○</b> candidate in its gate, with the number of its hypothesis</span>
          <span><i style={{ background: "var(--ok)" }} />goal</span>
        </span>
      </header>
      <div class="body"><IdeaTree of={of} chosen={chosen} choose={choose} /></div>
      <div class="flush scroll"><Table of={of} chosen={chosen} choose={choose} /></div>
      <AttributionChart of={of} numbers={new Map(numbered(of.ideas).flatMap(([idea, number]) => idea.experiments.map((one) => [one.id, number])))} />
    </section>
  );
}

function Table({ of, chosen, choose }: { of: CampaignView; chosen: string; choose: (id: string) => void }) {
  const numbers = new Map(numbered(of.ideas).map(([idea, number]) => [idea.id, number]));
  const gates = new Map(of.gates.map((gate) => [gate.id, gate]));
  const most = Math.max(0.1, ...of.ideas.flatMap((idea) => [newest(idea)?.low ?? 0, newest(idea)?.high ?? 0]).map(Math.abs));
  return (
    <table>
      <thead><tr><Th of="#" /><th>Hypothesis</th><th>Agent session</th><th>State</th><th>Gate</th><Th of="Effect on hidden starts" /><th>95 % interval</th></tr></thead>
      <tbody>
        {of.ideas.map((idea) => (
          <>
            <tr class={`pick ${idea.id === chosen ? "on" : ""}`} id={`idea-${idea.id}`} key={idea.id} onClick={() => choose(idea.id)}>
              <td class="right faint">{numbers.get(idea.id)}</td>
              <td class="said" style={{ paddingLeft: `${0.7 + 1.1 * Math.min(idea.depth, 6)}rem` }}>
                <button class="link" aria-expanded={idea.id === chosen}>{idea.depth ? "↳ " : ""}{idea.statement}</button>
                {idea.mark && <span class={`mark ${idea.mark}`} title={`${idea.mark} by ${idea.marked_by}${idea.marked_why ? `: ${idea.marked_why}` : ""}`}> {idea.mark === "pinned" ? "★ pinned" : "✕ rejected"}</span>}
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
  const last = newest(idea);
  return (
    <tr class="details">
      <td />
      <td colSpan={6}>
        <EvidenceCard idea={idea} of={of} />
        <IdeaCommands idea={idea} of={of} />
        {last?.commit && <Code commit={last.commit} />}
      </td>
    </tr>
  );
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

/** The idea tree over time, and below it, on the same time axis, the success of the champion. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { percent, seconds } from "../format";
import type { CampaignView, GateView, Success } from "../types";
import { decisionWord, ideaWord, reasonWord } from "../words";
import { changesText, type Edge, ideaOfGate, laidOut, newest, type Node, stateOf } from "./ideaLayout";

const LEFT = 56, RIGHT = 22, ROW = 40, TOP = 26, CLIMB = 150, GAP = 30, FOOT = 24, RADIUS = 11;

export function IdeaTree({ of, chosen, choose }: { of: CampaignView; chosen: string; choose: (id: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, measure] = useState(900);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => measure(Math.max(560, entry!.contentRect.width)));
    watcher.observe(box.current!);
    return () => watcher.disconnect();
  }, []);
  const end = Math.max(1, of.wall_s, ...of.ideas.map((idea) => idea.proposed_s), ...of.gates.map((gate) => gate.decided_s ?? 0));
  const put = (at: number) => LEFT + (at / end) * (width - LEFT - RIGHT);
  const { nodes, edges, rows } = useMemo(() => laidOut(of.ideas, put, width - RIGHT), [of.ideas, width, end]);
  const floor = TOP + rows * ROW + GAP, height = floor + CLIMB + FOOT;
  return (
    <div class="scroll" ref={box}>
      <svg class="ideas" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Hypotheses over time; the table below has the same content">
        <Clock end={end} put={put} top={TOP - 12} bottom={floor + CLIMB} />
        {edges.map((edge) => <Line edge={edge} />)}
        {nodes.map((node) => <Dot key={node.idea.id} node={node} chosen={node.idea.id === chosen} choose={choose} />)}
        <Climb of={of} put={put} top={floor} numbers={ideaOfGate(of.ideas)} />
      </svg>
    </div>
  );
}

const yOf = (row: number) => TOP + (row + 0.5) * ROW;

function Clock({ end, put, top, bottom }: { end: number; put: (at: number) => number; top: number; bottom: number }) {
  const step = [5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((one) => end / one <= 10) ?? 604800;
  const marks = Array.from({ length: Math.floor(end / step) + 1 }, (_, index) => index * step);
  return (
    <g class="clock" aria-hidden="true">
      {marks.map((at) => (
        <>
          <line x1={put(at)} x2={put(at)} y1={top} y2={bottom} />
          <text x={put(at)} y={bottom + 16} text-anchor="middle">{at ? seconds(at).replace(/ 00 s$/, "") : "0"}</text>
        </>
      ))}
    </g>
  );
}

function Line({ edge }: { edge: Edge }) {
  const { from, to } = edge;
  const [x0, y0, x1, y1] = [from.x, yOf(from.row), to.x, yOf(to.row)];
  const bend = Math.max(18, (x1 - x0) / 2);
  const path = from.row === to.row && edge.kind === "parent" ? `M${x0} ${y0}H${x1}` : `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
  return <path class={`edge ${edge.kind}`} d={path} aria-hidden="true" />;
}

function Dot({ node, chosen, choose }: { node: Node; chosen: boolean; choose: (id: string) => void }) {
  const { idea, number, x, row, room } = node;
  const word = ideaWord(stateOf(idea));
  const label = changesText(newest(idea)?.changes ?? {}) || idea.statement;
  const most = Math.floor((room - 2 * RADIUS - 18) / 6);
  const shown = label.length <= most ? label : most > 8 ? `${label.slice(0, most - 1)}…` : "";
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(idea.id);
  };
  return (
    <g class={`dot ${word.tone} ${chosen ? "chosen" : ""}`} transform={`translate(${x} ${yOf(row)})`} role="button" tabindex={0}
      aria-label={`Hypothesis ${number} ${label}: ${idea.statement}; ${word.word}`} aria-pressed={chosen} onClick={() => choose(idea.id)} onKeyDown={onKey}>
      <title>{`${number}. ${idea.statement} (${word.word})`}</title>
      <circle r={RADIUS} />
      <text class="icon" text-anchor="middle" dy="0.36em">{word.icon}</text>
      <text x={RADIUS + 5} y={-5}><tspan class="number">{number}</tspan> <tspan class="what" dx={3}>{shown}</tspan></text>
    </g>
  );
}

/** Success on hidden starts: the champion as a step line, every candidate of a gate as a point with its interval. */
function Climb({ of, put, top, numbers }: { of: CampaignView; put: (at: number) => number; top: number; numbers: Map<string, number> }) {
  const gates = of.gates.filter((gate) => gate.decision !== "open" && gate.candidate_success.n);
  const known = onHiddenStarts(of.base, gates);
  const up = (rate: number) => top + (1 - rate) * CLIMB;
  const steps = of.deployments.flatMap(({ at_s, id }) => (known.has(id) ? [[put(at_s), up(known.get(id)!)] as const] : []));
  const stairs = steps.map(([x, y], index) => (index ? `H${x}V${y}` : `M${x} ${y}`)).join("") + (steps.length ? `H${put(of.wall_s)}` : "");
  return (
    <g class="climb" role="img" aria-label={`Success of the candidates: ${gates.map((gate) => percent(gate.candidate_success.success)).join(", ")}; the table of gates has the same values`}>
      {[0, 0.5, 1].map((rate) => (
        <>
          <line class="rule" x1={LEFT} x2={put(of.wall_s)} y1={up(rate)} y2={up(rate)} />
          <text x={LEFT - 8} y={up(rate) + 4} text-anchor="end">{100 * rate} %</text>
        </>
      ))}
      <line class="goal" x1={LEFT} x2={put(of.wall_s)} y1={up(of.goal.success)} y2={up(of.goal.success)} />
      {stairs && <path class="stairs" d={stairs} />}
      {gates.map((gate) => <Judged gate={gate} x={put(gate.decided_s ?? gate.opened_s)} up={up} number={numbers.get(gate.id)} />)}
    </g>
  );
}

/** Version -> its success over all its trials on hidden starts: base measurement and gates. */
function onHiddenStarts(base: Success | null | undefined, gates: GateView[]): Map<string, number> {
  const tally = new Map<string, [number, number]>();
  for (const one of [...(base ? [base] : []), ...gates.flatMap((gate) => [gate.candidate_success, gate.champion_success])]) {
    const [successes, n] = tally.get(one.id) ?? [0, 0];
    tally.set(one.id, [successes + one.successes, n + one.n]);
  }
  return new Map([...tally].filter(([, [, n]]) => n).map(([id, [successes, n]]) => [id, successes / n]));
}

function Judged({ gate, x, up, number }: { gate: GateView; x: number; up: (rate: number) => number; number: number | undefined }) {
  const { success, low, high, n } = gate.candidate_success;
  const word = decisionWord(gate.decision);
  return (
    <g class={`judged ${word.tone}`}>
      <title>{`${number ? `Hypothesis ${number}` : `Round ${gate.round}`}: ${percent(success)} of ${n} pairs, ${word.word.toLowerCase()} (${reasonWord(gate.reason)})`}</title>
      <line x1={x} x2={x} y1={up(high)} y2={up(low)} />
      <circle cx={x} cy={up(success ?? 0)} r={4.5} />
      {number && <text x={x + 8} y={up(success ?? 0) + ((success ?? 0) < 0.2 ? -6 : 14)}>{number}</text>}
    </g>
  );
}

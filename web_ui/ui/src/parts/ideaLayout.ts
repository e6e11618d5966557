/** Positions of the hypotheses in the idea tree: time on the x axis, one row per line of descent. */

import type { Idea } from "../types";

export interface Node { idea: Idea; number: number; x: number; row: number; /** Pixels to the next node of its row. */ room: number }
export interface Edge { kind: string; from: Node; to: Node }
/** Smallest distance of two nodes of a row, in pixels. */
const APART = 34;

/** Nodes in the order of their proposal; a child is in its parent's row where there is room. */
export function laidOut(ideas: Idea[], put: (seconds: number) => number, width: number): { nodes: Node[]; edges: Edge[]; rows: number } {
  const byId = new Map<string, Node>();
  const last: Node[] = [];
  numbered(ideas).forEach(([idea, number]) => {
    const x = put(idea.proposed_s);
    const free = (row: number) => !last[row] || last[row]!.x + APART <= x;
    const parent = byId.get(idea.parents[0] ?? "");
    let row = parent && last[parent.row] === parent && free(parent.row) ? parent.row : last.length;
    if (row === last.length && parent) row = Math.max(row, parent.row + 1);
    const node = { idea, number, x, row, room: width - x };
    if (last[row]) last[row]!.room = x - last[row]!.x;
    last[row] = node;
    byId.set(idea.id, node);
  });
  const nodes = [...byId.values()];
  const line = (kind: string, from: string, to: Node): Edge[] => (byId.has(from) ? [{ kind, from: byId.get(from)!, to }] : []);
  const edges = nodes.flatMap((node) => [
    ...node.idea.parents.flatMap((one) => line("parent", one, node)),
    ...node.idea.edges.flatMap(([kind, one]) => line(kind, one, node)),
  ]);
  return { nodes, edges, rows: last.length };
}

/** Hypotheses with their numbers, from 1, in the order of their proposal. */
export const numbered = (ideas: Idea[]): [Idea, number][] => [...ideas].sort((a, b) => a.proposed_s - b.proposed_s).map((idea, index) => [idea, index + 1]);
/** gate id -> number of the hypothesis that it tested. */
export const ideaOfGate = (ideas: Idea[]): Map<string, number> =>
  new Map(numbered(ideas).flatMap(([idea, number]) => idea.experiments.map((one): [string, number] => [one.gate_id, number])));

/** The experiment that gives a hypothesis its state: the newest that was not refused, else the newest. */
export const newest = (idea: Idea) => idea.experiments.filter((one) => one.phase !== "invalid").at(-1) ?? idea.experiments.at(-1);
export const stateOf = (idea: Idea): string => idea.mark === "rejected" && newest(idea)?.phase !== "decided" ? "rejected" : newest(idea)?.decision || newest(idea)?.phase || "proposed";

/** Changed settings as text: `passes 8, multi_step 4`. */
export const changesText = (changes: Record<string, unknown>): string =>
  Object.entries(changes).map(([name, value]) => `${name} ${typeof value === "number" ? +value.toPrecision(4) : String(value)}`).join(", ");

/** Success by round: one line per kind of start, each point with its interval, and with its number of trials on hover. */

import { useMemo } from "preact/hooks";
import { percent } from "../format";
import type { Rate } from "../types";
import { Chart, type Line } from "./Chart";
import { Empty } from "./Pieces";

/** Fewest trials of a point. */
export const LEAST_TRIALS = 10;

/** One rate. `kind`: a champion or another version on hidden starts, or the data collection on training starts. */
export interface Point { round: number; kind: "champion" | "other" | "collection"; what: string; rate: Rate }

const KINDS: { kind: Point["kind"]; name: string; line: Partial<Line> & { tone: string } }[] = [
  { kind: "champion", name: "hidden starts, champions", line: { tone: "accent" } },
  { kind: "other", name: "hidden starts, other versions", line: { tone: "warn", loose: true } },
  { kind: "collection", name: "training starts, data collection", line: { tone: "faint", dash: [3, 4] } },
];
/** Rounds between two points of the same round, so that they do not cover each other. */
const APART = 0.07;

export function SuccessChart({ points, goal, height }: { points: Point[]; goal: number; height: number }) {
  const enough = points.filter((point) => point.rate.n >= LEAST_TRIALS);
  const chart = useMemo(() => drawn(enough), [JSON.stringify(enough)]);
  const kinds = KINDS.filter(({ kind }) => enough.some((point) => point.kind === kind));
  const few = points.length - enough.length;
  return (
    <section class="card" aria-label="Success by round">
      <header>
        <h2>Success by round</h2>
        <span class="legend push">
          {kinds.map(({ name, line }) => <span><i style={{ background: `var(--${line.tone})` }} />{name}</span>)}
          <span><i style={{ background: "var(--ok)" }} />goal</span>
        </span>
      </header>
      <div class="body">
        {enough.length ? (
          <Chart {...chart} height={height} range={[0, 1]} goal={goal} xStep={1} xTo={1}
            xLabel={(value) => (Number.isInteger(value) ? (value ? `round ${value}` : "base") : "")} yLabel={(value) => `${Math.round(100 * value)} %`}
            label={`Success by round: ${enough.map(note).join("; ")}`} />
        ) : (
          <Empty title={points.length ? `Fewer than ${LEAST_TRIALS} trials` : "No round has ended yet"}>{points.length ? "A success rate appears here after ten trials." : "The base policy is being trained or measured."}</Empty>
        )}
        {few > 0 && enough.length > 0 && <p class="faint small">{few} with fewer than {LEAST_TRIALS} trials {few === 1 ? "is" : "are"} not drawn.</p>}
      </div>
    </section>
  );
}

const note = ({ what, rate }: Point): string => `${what}: ${percent(rate.rate)} [${percent(rate.low)}, ${percent(rate.high)}], n = ${rate.n}`;

function drawn(points: Point[]): { x: number[]; lines: Line[] } {
  const used = new Map<number, number>();
  const placed = points.map((point) => {
    const before = used.get(point.round) ?? 0;
    used.set(point.round, before + 1);
    return { ...point, x: point.round + APART * before };
  });
  const x = [...new Set(placed.map((point) => point.x))].sort((a, b) => a - b);
  const lines = KINDS.map(({ kind, name, line }): Line => {
    const found = new Map(placed.filter((point) => point.kind === kind).map((point) => [point.x, point]));
    const each = <T,>(value: (point: Point) => T) => x.map((at) => (found.has(at) ? value(found.get(at)!) : null));
    return { name, points: true, ...line, values: each(({ rate }) => rate.rate ?? null), intervals: each(({ rate }): [number, number] => [rate.low, rate.high]), notes: each(note) };
  });
  return { x, lines };
}

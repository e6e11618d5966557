/** A uPlot chart in the colours of the page. It is made again when its lines or the theme change. */

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { colour, painted } from "../theme";

/** Pixels left and right of the plot, also for other elements on the same time axis. */
export const LEFT = 52, RIGHT = 26;

export interface Line {
  name: string; tone: string; values: (number | null)[]; dash?: number[]; points?: boolean;
  /** Each value holds until the next. */
  stepped?: boolean;
  /** Points without a line between them. */
  loose?: boolean;
  /** Interval of each value, drawn as a vertical bar. */
  intervals?: ([number, number] | null)[];
  /** Text of each value on hover. */
  notes?: (string | null)[];
}
export interface Band { upper: number; lower: number; tone: string }
export interface ChartProps {
  x: number[]; lines: Line[]; bands?: Band[]; height?: number; range?: [number, number];
  /** Smallest end of the x axis, so that a single point is not stretched over it. */
  xTo?: number;
  xLabel?: (value: number) => string; yLabel?: (value: number) => string; xStep?: number;
  /** Position of a vertical marker on the x axis. */
  at?: number; onPick?: (x: number) => void; goal?: number; label: string;
  /** Without an x axis; a chart below shows it. */
  bare?: boolean;
}

export function Chart(props: ChartProps) {
  const [hover, show] = useState<Hover | undefined>(undefined);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  const paint = painted.value;
  const shape = props.lines.map((line) => `${line.name}${line.tone}${line.points}`).join() + (props.range ?? "") + props.height;

  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const made = new uPlot(options(latest, host.clientWidth, show), data(latest.current), host);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: host.clientWidth, height: latest.current.height ?? 200 }));
    watcher.observe(host);
    const pick = () => {
      const { left } = made.cursor;
      if (left !== undefined && left !== null && left >= 0) latest.current.onPick?.(made.posToVal(left, "x"));
    };
    made.over.addEventListener("click", pick);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [paint, shape]);

  useEffect(() => plot.current?.setData(data(props)), [props.x, props.lines]);
  useEffect(() => plot.current?.redraw(false), [props.at, props.goal]);
  return (
    <div class="plot">
      <div class="chart" ref={box} role="img" aria-label={props.label} style={{ minHeight: `${props.height ?? 200}px` }} />
      {hover && <div class="tip" style={{ left: `${hover.left}px`, top: `${hover.top}px`, transform: hover.flip ? "translate(-100%, -110%)" : "translate(0, -110%)" }}>{hover.notes.map((one) => <div>{one}</div>)}</div>}
    </div>
  );
}

interface Hover { left: number; top: number; flip: boolean; notes: string[] }

/** The notes of the values under the cursor; nothing where no line has one. */
function hovered(plot: uPlot, props: ChartProps): Hover | undefined {
  const index = plot.cursor.idx, left = plot.cursor.left ?? -1;
  if (index === null || index === undefined || left < 0) return undefined;
  const notes = props.lines.flatMap((line) => line.notes?.[index] ?? []);
  if (!notes.length) return undefined;
  const at = plot.valToPos(props.x[index]!, "x");
  if (Math.abs(at - left) > NEAR) return undefined;
  const line = props.lines.find((one) => one.notes?.[index]);
  const ratio = devicePixelRatio, top = plot.valToPos(line?.values[index] ?? 0, "y");
  return { left: at + plot.bbox.left / ratio, top: top + plot.bbox.top / ratio, flip: at > plot.bbox.width / ratio / 2, notes };
}

/** Pixels between the cursor and a value whose note is shown. */
const NEAR = 24;

const data = (props: ChartProps): uPlot.AlignedData => [props.x, ...props.lines.map((line) => line.values)];

function options(latest: { current: ChartProps }, width: number, show: (hover: Hover | undefined) => void): uPlot.Options {
  const props = latest.current;
  const axis: uPlot.Axis = {
    stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false },
    font: "12px system-ui, sans-serif", gap: 6,
  };
  const xValues = props.xLabel && { values: (_: uPlot, at: number[]) => at.map((value) => latest.current.xLabel!(value)) };
  const yValues = props.yLabel && { values: (_: uPlot, at: number[]) => at.map((value) => latest.current.yLabel!(value)) };
  const incrs = props.xStep ? { incrs: [1, 2, 5, 10, 20, 50, 100].map((step) => step * props.xStep!) } : {};
  const range = props.range;
  return {
    width: Math.max(80, width),
    height: props.height ?? 200,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 7 }, y: false },
    scales: { x: { time: false, range: () => reach(latest.current) }, y: range ? { range: () => range } : {} },
    padding: [8, RIGHT, props.bare ? 4 : 0, 0],
    axes: [
      { ...axis, size: props.bare ? 0 : 30, ...xValues, ...incrs, ...(props.bare ? { values: () => [] } : {}) },
      { ...axis, size: LEFT, space: Math.min(30, (props.height ?? 200) / 4), ...yValues },
    ],
    series: [
      {},
      ...props.lines.map((line): uPlot.Series => ({
        label: line.name, stroke: line.tone === "none" ? "transparent" : colour(line.tone), width: 2,
        points: { show: line.points ?? false, size: 7, fill: colour("surface"), stroke: colour(line.tone), width: 2 },
        spanGaps: true,
        ...(line.loose ? { paths: () => null } : {}),
        ...(line.dash ? { dash: line.dash } : {}),
        ...(line.stepped ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
      })),
    ],
    bands: (props.bands ?? []).map((band) => ({ series: [band.upper, band.lower], fill: `${colour(band.tone)}2e` })),
    hooks: { draw: [(plot) => marks(plot, latest.current)], setCursor: [(plot) => show(hovered(plot, latest.current))] },
  };
}

/** The range of the x axis from the data; the default of uPlot is too wide for a single point. */
function reach(props: ChartProps): [number, number] {
  const first = Math.min(0, props.x[0] ?? 0);
  return [first, Math.max(props.x.at(-1) ?? first, props.xTo ?? first + 1e-6)];
}

/** Draw the goal as a dashed line and the shown moment as a vertical line. */
function marks(plot: uPlot, props: ChartProps): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const line of props.lines) bars(plot, props.x, line);
  ctx.lineWidth = devicePixelRatio;
  if (props.goal) {
    const y = Math.round(plot.valToPos(props.goal, "y", true));
    ctx.strokeStyle = colour("ok");
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  if (props.at !== undefined) {
    const x = Math.round(plot.valToPos(props.at, "x", true));
    ctx.strokeStyle = colour("text");
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** Draw the intervals of a line. */
function bars(plot: uPlot, x: number[], line: Line): void {
  const { ctx } = plot;
  ctx.strokeStyle = colour(line.tone);
  ctx.globalAlpha = 0.45;
  ctx.lineWidth = 3 * devicePixelRatio;
  ctx.setLineDash([]);
  line.intervals?.forEach((interval, index) => {
    if (!interval) return;
    const at = Math.round(plot.valToPos(x[index]!, "x", true));
    ctx.beginPath();
    ctx.moveTo(at, plot.valToPos(interval[0], "y", true));
    ctx.lineTo(at, plot.valToPos(interval[1], "y", true));
    ctx.stroke();
  });
  ctx.globalAlpha = 1;
}

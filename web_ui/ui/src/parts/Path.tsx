/** Paths of tracked points, seen from above and from the side, coloured by the source of the actions. */

import { useMemo } from "preact/hooks";
import type { Curve, Series } from "../types";

const LENGTHS = new Set(["mm", "cm", "m"]);
const TONE: Record<string, string> = { policy: "var(--accent)", human: "var(--warn)", reset: "var(--faint)", expert: "var(--ok)" };

interface Thing { name: string; unit: string; axes: Record<string, Curve> }

/** Group tip_x_mm, tip_y_mm, tip_z_mm into the point "tip". */
function things(curves: Curve[]): Thing[] {
  const found = new Map<string, Thing>();
  for (const curve of curves) {
    const match = /^(?:(.+)_)?([xyz])(?:_[a-z]+)?$/.exec(curve.name);
    if (!match || !LENGTHS.has(curve.unit)) continue;
    const name = match[1] ?? "position";
    const thing = found.get(name) ?? { name, unit: curve.unit, axes: {} };
    thing.axes[match[2]!] = curve;
    found.set(name, thing);
  }
  return [...found.values()].filter((thing) => thing.axes["x"] && (thing.axes["y"] || thing.axes["z"]));
}

export function Paths({ series, shown }: { series: Series; shown: number }) {
  const found = useMemo(() => things(series.state), [series]);
  const views = found.flatMap((thing) => [
    ...(thing.axes["y"] ? [{ thing, across: "x", up: "y", title: "from above" }] : []),
    ...(thing.axes["z"] ? [{ thing, across: "x", up: "z", title: "from the side" }] : []),
  ]);
  if (!views.length) return null;
  return (
    <div class="columns" style={{ gridTemplateColumns: "repeat(auto-fit, minmax(260px, 1fr))" }}>
      {views.map((view) => (
        <section class="card" key={view.thing.name + view.up}>
          <header>
            <h2>{view.thing.name}</h2>
            <span class="soft small">{view.title}</span>
            <span class="faint small num push">{at(view.thing.axes[view.across]!, shown)}, {at(view.thing.axes[view.up]!, shown)} {view.thing.unit}</span>
          </header>
          <div class="body"><View series={series} across={view.thing.axes[view.across]!} up={view.thing.axes[view.up]!} shown={shown} label={`path of ${view.thing.name} ${view.title}`} /></div>
        </section>
      ))}
    </div>
  );
}

const at = (curve: Curve, shown: number) => {
  const value = curve.values[shown];
  return value === null || value === undefined ? "–" : +value.toPrecision(3);
};

function View({ series, across, up, shown, label }: { series: Series; across: Curve; up: Curve; shown: number; label: string }) {
  const frame = useMemo(() => extent(across.values, up.values), [across, up]);
  const pieces = useMemo(
    () => series.segments.map((one) => ({ tone: TONE[one.source] ?? "var(--faint)", points: points(series.tick, across, up, one.first, one.last + 1) })),
    [series, across, up],
  );
  const x = across.values[shown], y = up.values[shown];
  const { left, top, width, height, unit } = frame;
  return (
    <svg class="path" viewBox={`${left} ${top} ${width} ${height}`} role="img" aria-label={label} preserveAspectRatio="xMidYMid meet">
      <line x1={left} x2={left + width} y1={0} y2={0} stroke="var(--line)" vector-effect="non-scaling-stroke" />
      <line x1={0} x2={0} y1={top} y2={top + height} stroke="var(--line)" vector-effect="non-scaling-stroke" />
      {pieces.map((piece) => (
        <polyline points={piece.points} fill="none" stroke={piece.tone} stroke-width="2" stroke-linejoin="round" vector-effect="non-scaling-stroke" />
      ))}
      {typeof x === "number" && typeof y === "number" && <circle cx={x} cy={-y} r={unit} fill="var(--text)" stroke="var(--surface)" stroke-width="2" vector-effect="non-scaling-stroke" />}
    </svg>
  );
}

/** A view box twice as wide as high around all points. The second axis is flipped, because SVG counts y downwards. */
function extent(across: (number | null)[], up: (number | null)[]) {
  const xs = across.filter((value) => value !== null), ys = up.filter((value) => value !== null);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const height = Math.max(y1 - y0, (x1 - x0) / 2, 1e-6) * 1.25;
  const width = 2 * height;
  return { left: (x0 + x1 - width) / 2, top: -(y0 + y1 + height) / 2, width, height, unit: height / 28 };
}

function points(ticks: number[], across: Curve, up: Curve, first: number, end: number): string {
  const shown: string[] = [];
  ticks.forEach((tick, index) => {
    const x = across.values[index], y = up.values[index];
    if (tick >= first && tick <= end && typeof x === "number" && typeof y === "number") shown.push(`${x},${-y}`);
  });
  return shown.join(" ");
}

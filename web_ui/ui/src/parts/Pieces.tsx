/** Small components that several pages share. */

import { Component, type ComponentChildren } from "preact";
import type { Success } from "../types";
import { percent } from "../format";
import { letterWord, type Word } from "../words";
import { defined } from "./Terms";

export function Pill({ of, children }: { of: Word; children?: ComponentChildren }) {
  return (
    <span class={`pill ${of.tone}`}>
      <i aria-hidden="true">{of.icon}</i>{children ?? of.word}
    </span>
  );
}

/** A difference of success rates in percentage points, without the unit. */
export const bare = (value: number): string => `${value >= 0 ? "+" : "−"}${Math.abs(100 * value).toFixed(1)}`;

export function Interval({ low, high, at, goal }: { low: number; high: number; at?: number | null; goal?: number }) {
  const put = (value: number) => `${(100 * Math.min(1, Math.max(0, value))).toFixed(2)}%`;
  return (
    <div class="interval" role="img" aria-label={`${percent(at)}, 95 % interval ${percent(low)} to ${percent(high)}`}>
      <b style={{ left: put(low), width: put(high - low) }} />
      {goal ? <u style={{ left: put(goal) }} title={`goal ${percent(goal)}`} /> : null}
      {at === null || at === undefined ? null : <i style={{ left: put(at) }} />}
    </div>
  );
}

/** A difference of success rates in points. */
export const points = (gap: number | null | undefined): string =>
  gap === null || gap === undefined ? "–" : `${gap >= 0 ? "+" : "−"}${Math.abs(100 * gap).toFixed(1)} pt`;

/** A paired difference of success rates on an axis from -100 to +100 points, with its interval. */
export function Difference({ at, low, high }: { at: number; low: number; high: number }) {
  const put = (value: number) => `${(50 + 50 * Math.max(-1, Math.min(1, value))).toFixed(2)}%`;
  return (
    <span class="beside nowrap num" {...defined("Difference")}>
      <span class="effect" aria-hidden="true">
        <b style={{ left: put(low), width: `${(50 * (Math.min(1, high) - Math.max(-1, low))).toFixed(2)}%` }} /><i style={{ left: put(at) }} />
      </span>
      <span><b>{points(at)}</b> <span class="faint small">[{bare(low)}, {bare(high)}]</span></span>
    </span>
  );
}

/** A success rate: rate, interval, n. */
export function Rate({ of }: { of: Success | null | undefined }) {
  if (!of || !of.n) return <span class="faint">no trials</span>;
  return (
    <span class="num nowrap" {...defined("Success rate")}>
      <b>{percent(of.success)}</b>{" "}
      <span class="faint small">[{(100 * of.low).toFixed(1)}, {(100 * of.high).toFixed(1)}] of {of.n}</span>
    </span>
  );
}

/** Says beside a success rate that the simulation itself judged. */
export const Truth = ({ of }: { of: { simulator_truth?: boolean } }) =>
  of.simulator_truth ? <span title="The simulation itself says what succeeded; no verifier looks at sensors"> · simulator truth</span> : null;

/** Drawn again only when the letters change. (A kept `useMemo` tree would hold the whole page of its time in memory.) */
export class Verdicts extends Component<{ letters: string }> {
  override shouldComponentUpdate({ letters }: { letters: string }): boolean {
    return letters !== this.props.letters;
  }
  override render() {
    const shown = [...this.props.letters.slice(-20)];
    const wins = shown.filter((letter) => letter === "s").length;
    return (
      <div class="verdicts" role="img" aria-label={`last ${shown.length} verdicts: ${wins} successes`}>
        {shown.map((letter) => {
          const word = letterWord(letter);
          return <span class={word.tone} title={word.word}>{word.icon}</span>;
        })}
      </div>
    );
  }
}

/** A bar of parts with its legend, in a fixed order. */
export function Stack({ parts, unit }: { parts: [string, number, string][]; unit: (value: number) => string }) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  if (!total) return <p class="faint small">No data yet.</p>;
  return (
    <div style={{ display: "grid", gap: "0.65rem" }}>
      <div class="stack" aria-hidden="true">
        {parts.map(([name, value]) =>
          value > 0 ? <i class={`fill-${name}`} style={{ width: `${(100 * value) / total}%` }} /> : null,
        )}
      </div>
      <div class="legend">
        {parts.filter(([, value]) => value > 0).map(([name, value, word]) => (
          <span><i class={`square fill-${name}`} />{word} <b>{unit(value)}</b></span>
        ))}
      </div>
    </div>
  );
}

/** Live content, greyed while it may be outdated. */
export function Live({ old, children }: { old: boolean; children: ComponentChildren }) {
  return <div class={`pile ${old ? "greyed" : ""}`} aria-busy={old}>{children}</div>;
}

export function Failed({ sentence }: { sentence: string }) {
  return <div class="notice" role="alert">{sentence}</div>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><b>{title}</b>{children}</div>;
}

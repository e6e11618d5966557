/** What each kept change contributed to success: bars with 95 % intervals, from `enpire campaign attribute`. */

import type { Attribution, CampaignView, Effect } from "../types";
import { changesText } from "./ideaLayout";
import { bare } from "./Pieces";
import { defined, Th } from "./Terms";
import { useGet } from "./use";

export function AttributionChart({ of, numbers }: { of: CampaignView; numbers: Map<string, number> }) {
  const kept = of.ideas.some((idea) => idea.experiments.some((one) => one.decision === "keep"));
  const { value } = useGet<Attribution | null>(kept ? `/campaigns/${of.id}/attribution` : "");
  if (!kept || value === undefined) return null;
  if (!value) return <p class="body soft small">What each kept change contributed is not measured; <code>enpire campaign attribute {of.id.slice(-8)}</code> trains every set of them and tries all on the same simulated starts.</p>;
  const all = value.changes.flatMap(({ effects }) => [effects.shapley, effects.leave_one_out]);
  const most = Math.max(0.05, ...all.flatMap((one) => [Math.abs(one.low), Math.abs(one.high)]));
  return (
    <div class="body" role="region" aria-label="Attribution">
      <h3 class="small">What each kept change contributed</h3>
      <p class="soft small">
        {value.starts} simulated train starts, {value.episodes} episodes of training data, one training run for each set of changes (seed {value.seed}); 95 % intervals.{" "}
        <span {...defined("Shapley value")}>Shapley value</span> as a bar,{" "}
        <span {...defined("Leave-one-out")}>leave-one-out</span> below it.{!value.exact && " Shapley values are estimated from some orders."}
      </p>
      <table class="bars">
        <thead><tr><Th of="#" /><th>Change</th><th>−{(100 * most).toFixed(0)} to +{(100 * most).toFixed(0)} points</th><Th of="Shapley value" /><Th of="Leave-one-out" /></tr></thead>
        <tbody>
          {value.changes.map((one) => (
            <tr key={one.experiment}>
              <td class="right faint">{numbers.get(one.experiment) ?? ""}</td>
              <td>{one.regime && <b title={`its promoted version ${one.version}`}>{one.regime} </b>}{changesText(one.changes)}</td>
              <td class="most"><Bar of={one.effects.shapley} most={most} thick /><Bar of={one.effects.leave_one_out} most={most} /></td>
              <td class="right num">{text(one.effects.shapley)}</td>
              <td class="right num">{text(one.effects.leave_one_out)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {value.left_out.map((one) => <p class="soft small" key={one}>Left out: {one}.</p>)}
    </div>
  );
}

const text = ({ delta, low, high }: Effect) => `${bare(delta)} pt [${bare(low)}, ${bare(high)}]`;

function Bar({ of, most, thick }: { of: Effect; most: number; thick?: boolean }) {
  const put = (value: number) => 50 + (50 * value) / most;
  const [from, to] = [put(Math.min(0, of.delta)), put(Math.max(0, of.delta))];
  return (
    <svg class={`bar-of ${of.low > 0 ? "ok" : of.high < 0 ? "bad" : "calm"}`} width="100%" height={thick ? 14 : 8} role="img" aria-label={text(of)}>
      <title>{text(of)}</title>
      <line class="zero" x1="50%" x2="50%" y1="0" y2="100%" />
      <rect x={`${from}%`} width={`${to - from}%`} y="15%" height="70%" />
      <line class="whisker" x1={`${put(of.low)}%`} x2={`${put(of.high)}%`} y1="50%" y2="50%" />
    </svg>
  );
}

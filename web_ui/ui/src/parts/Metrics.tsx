/** Metrics of a training run: the most important ones at once, all of them on demand. */

import { whole } from "../format";

const FIRST = ["n_success", "n_episodes", "kappa", "efficiency_sound", "auc_a_e", "p_v_reliability", "loss", "steps"];

const WORDS: Record<string, string> = {
  n_success: "successes of the policy", n_episodes: "episodes", n_demonstrations: "demonstrations", windows: "training windows",
  kappa: "share of failures with an intervention", auc_a_e: "speed critic, moves against pauses (AUC, held out)",
  brier: "Brier score of the success probability (held out)",
  p_v_reliability: "calibration error of the success probability (newest, held out)",
  efficiency_sound: "speed critic passed its check (1 is yes)", v_e_lowest: "most decisions predicted", v_e_highest: "fewest decisions predicted",
  a_e_mean: "mean advantage in decisions", a_e_spread: "standard deviation of the advantage in decisions",
  interventions_reweighted: "interventions weighted by the critics (1 is yes)", p_v_mean: "mean success probability",
  "p_v_below_0.05": "share with success probability below 5 %", "p_v_above_0.95": "share with success probability above 95 %",
  z_largest: "largest logit of the success probability", gate_saturated: "share of weights at their limit", gate_mean: "mean weight",
  effective_share: "effective share of the windows", loss: "loss", steps: "gradient steps",
  temperature: "sampling temperature of the version", held_out_loss: "loss on held-out episodes",
  held_out_lowest: "lowest loss on held-out episodes", held_out_windows: "held-out windows (0: no early stopping)",
  on_gpu: "on a GPU (1 is yes)", bfloat16: "in bfloat16 (1 is yes)",
};

function numberText(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Number.isInteger(value) ? whole(value) : Number(value.toPrecision(3)).toString();
}

export function Metrics({ metrics }: { metrics: Record<string, number> }) {
  const named = FIRST.filter((name) => name in metrics);
  const first = named.length ? named : Object.keys(metrics).slice(0, FIRST.length);
  const rest = Object.keys(metrics).filter((name) => !first.includes(name));
  const shown = (names: string[]) => names.map((name) => (
    <><span title={name}>{WORDS[name] ?? name.replaceAll("_", " ")} <b>{numberText(metrics[name]!)}</b></span>{"  "}</>
  ));
  return (
    <>
      {shown(first)}
      {rest.length > 0 && <details><summary>{rest.length} more</summary>{shown(rest)}</details>}
    </>
  );
}

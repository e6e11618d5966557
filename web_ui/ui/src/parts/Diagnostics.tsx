/** What a training run says of itself: the most telling figures at once, all of them on demand, in plain words. */

import { whole } from "../format";

const FIRST = ["n_success", "n_episodes", "kappa", "efficiency_sound", "auc_a_e", "p_v_reliability", "loss", "steps"];

const WORDS: Record<string, string> = {
  n_success: "successes of the policy", n_episodes: "episodes", n_demonstrations: "demonstrations", windows: "windows cut from them",
  kappa: "share of failures that people took over", auc_a_e: "speed critic tells moves from pauses (AUC, held out)",
  brier: "squared error of the chance of success (held out)",
  p_v_reliability: "gap between the chance of success and what came (newest, held out)",
  efficiency_sound: "speed critic sound (1 is yes)", v_e_lowest: "most decisions foreseen", v_e_highest: "fewest decisions foreseen",
  a_e_mean: "mean gain in decisions", a_e_spread: "spread of the gain in decisions",
  interventions_reweighted: "interventions weighed by the gate (1 is yes)", p_v_mean: "mean chance of success",
  "p_v_below_0.05": "share with a chance below 5 %", "p_v_above_0.95": "share with a chance above 95 %",
  z_largest: "largest logit of the chance", gate_saturated: "share of weights at their limit", gate_mean: "mean weight",
  effective_share: "share of the windows that carries the weight", loss: "loss", steps: "gradient steps",
  temperature: "noise that the version samples with", held_out_loss: "loss on held-out episodes",
  held_out_lowest: "lowest loss on held-out episodes", held_out_windows: "windows held out (0: no early end)",
  on_gpu: "on a GPU (1 is yes)", bfloat16: "in bfloat16 (1 is yes)",
};

function figure(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Number.isInteger(value) ? whole(value) : Number(value.toPrecision(3)).toString();
}

export function Diagnostics({ figures }: { figures: Record<string, number> }) {
  const named = FIRST.filter((name) => name in figures);
  const first = named.length ? named : Object.keys(figures).slice(0, FIRST.length);
  const rest = Object.keys(figures).filter((name) => !first.includes(name));
  const shown = (names: string[]) => names.map((name) => (
    <><span title={name}>{WORDS[name] ?? name.replaceAll("_", " ")} <b>{figure(figures[name]!)}</b></span>{"  "}</>
  ));
  return (
    <>
      {shown(first)}
      {rest.length > 0 && <details><summary>{rest.length} more</summary>{shown(rest)}</details>}
    </>
  );
}

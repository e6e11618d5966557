/** Metrics of a training run: the most important ones at once, all of them on demand. */

import { percent, whole } from "../format";

const FIRST = ["n_success", "n_episodes", "kappa", "efficiency_sound", "auc_a_e", "p_v_reliability", "loss", "steps"];

interface Meaning { word: string; what: string; kind?: "share" | "yes" }

/** Name of a metric -> its label, its definition, and how its value is written: a share in percent, or yes and no. */
const MEANINGS: Record<string, Meaning> = {
  n_success: { word: "successes of the policy", what: "Successful rollouts among the training episodes" },
  n_episodes: { word: "episodes", what: "Training episodes" },
  n_demonstrations: { word: "demonstrations", what: "Demonstrations among the training episodes" },
  n_stopped: { word: "stopped early", what: "Training episodes that were stopped early; critics learn from them up to the stop" },
  windows: { word: "training windows", what: "Stretches of episodes on which one gradient step can learn" },
  kappa: { word: "failures prevented", what: "Share of failures that operators prevented by taking over", kind: "share" },
  auc_a_e: { word: "speed critic AUC", what: "How well the speed critic tells moves from pauses on held-out episodes: 1 is always, 0.5 is chance" },
  brier: { word: "Brier score of p_v", what: "Mean squared error of the predicted success probability on held-out episodes; 0 is best" },
  p_v_reliability: { word: "calibration error of p_v", what: "Mean difference of predicted and actual success on held-out episodes of the newest round", kind: "share" },
  efficiency_sound: { word: "speed critic used", what: "Whether the speed critic passed its check, so that it weights the data", kind: "yes" },
  v_e_lowest: { word: "most decisions predicted", what: "Lowest V_e: the largest number of decisions predicted until success, negative" },
  v_e_highest: { word: "fewest decisions predicted", what: "Highest V_e: the smallest number of decisions predicted until success, negative" },
  a_e_mean: { word: "mean advantage", what: "Mean of the speed critic's advantage, in decisions" },
  a_e_spread: { word: "spread of the advantage", what: "Standard deviation of the speed critic's advantage, in decisions" },
  interventions_reweighted: { word: "interventions weighted by critics", what: "Whether frames of interventions are weighted by the critics", kind: "yes" },
  p_v_at_start: { word: "p_v at the start", what: "Mean predicted success probability at the starts of the newest rollouts; the lower it is, the less the training prefers speed", kind: "share" },
  p_v_mean: { word: "mean p_v", what: "Mean predicted success probability of the training windows", kind: "share" },
  "p_v_below_0.05": { word: "p_v below 5 %", what: "Share of training windows with a predicted success probability below 5 %", kind: "share" },
  "p_v_above_0.95": { word: "p_v above 95 %", what: "Share of training windows with a predicted success probability above 95 %", kind: "share" },
  z_largest: { word: "largest logit of p_v", what: "Largest distance of the logit of p_v from 0; large values show an overconfident critic" },
  gate_saturated: { word: "weights at their limit", what: "Share of training weights at their limit", kind: "share" },
  gate_mean: { word: "mean weight", what: "Mean training weight; 1 is neutral" },
  effective_share: { word: "effective sample share", what: "Share of the windows that count, given their weights", kind: "share" },
  loss: { word: "loss", what: "Training loss at the end" },
  steps: { word: "gradient steps", what: "Gradient steps of the policy" },
  temperature: { word: "sampling temperature", what: "Temperature with which the version samples actions" },
  held_out_loss: { word: "held-out loss", what: "Loss on held-out episodes at the end" },
  held_out_lowest: { word: "lowest held-out loss", what: "Lowest loss on held-out episodes during training" },
  held_out_windows: { word: "held-out windows", what: "Windows that stop the training early; 0: none do" },
  on_gpu: { word: "on a GPU", what: "Whether a GPU computed the training", kind: "yes" },
  bfloat16: { word: "in bfloat16", what: "Whether the training computed in bfloat16", kind: "yes" },
};

function valueText(value: number, kind: Meaning["kind"]): string {
  if (!Number.isFinite(value)) return "–";
  if (kind === "yes") return value ? "yes" : "no";
  if (kind === "share") return percent(value);
  return Number.isInteger(value) ? whole(value) : Number(value.toPrecision(3)).toString();
}

function Metric({ name, value }: { name: string; value: number }) {
  const { word, what, kind } = MEANINGS[name] ?? { word: name.replaceAll("_", " "), what: "A metric of this learner" };
  return <><span class="nowrap" title={`${what} (${name})`} data-term={word}>{word} <b>{valueText(value, kind)}</b></span>{"  "}</>;
}

export function Metrics({ metrics }: { metrics: Record<string, number> }) {
  const named = FIRST.filter((name) => name in metrics);
  const first = named.length ? named : Object.keys(metrics).slice(0, FIRST.length);
  const rest = Object.keys(metrics).filter((name) => !first.includes(name));
  const shown = (names: string[]) => names.map((name) => <Metric key={name} name={name} value={metrics[name]!} />);
  return (
    <>
      {shown(first)}
      {rest.length > 0 && <details><summary>{rest.length} more</summary>{shown(rest)}</details>}
    </>
  );
}

/** While no campaign runs: the result of the latest campaign, its report, and how to start the next one. */

import { goalText, moment, percent, seconds, whole } from "../format";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import type { CampaignLine, CampaignView } from "../types";
import { stateWord } from "../words";
import { Difference, Empty, Failed, Interval, Pill, Truth } from "./Pieces";
import { Queue } from "./Queue";
import { Dt } from "./Terms";
import { useGet } from "./use";

export function Last() {
  const campaigns = useGet<CampaignLine[]>("/campaigns", fleet.value?.connected);
  const id = campaigns.value?.[0]?.id;
  const last = useGet<CampaignView>(id ? `/campaigns/${id}` : "", fleet.value?.connected);
  const problem = campaigns.problem ?? last.problem;
  if (problem) return <Failed sentence={problem} />;
  if (campaigns.value && !id) return <section class="card"><Empty title="No campaign yet">{mayCommand.value ? <a class="button primary" href="/start">▶ Start a campaign</a> : <span>An operator starts one.</span>}</Empty></section>;
  if (!last.value) return <section class="card"><Empty title="Loading…" /></section>;
  return <><Result of={last.value} /><Queue /></>;
}

/** The result of a campaign that does not run now. */
function Result({ of }: { of: CampaignView }) {
  const confirmed = of.confirm?.n ? of.confirm : undefined, best = confirmed ?? of.champion;
  return (
    <section class="card" aria-label="Latest campaign">
      <header>
        <h2>{of.name}</h2><Pill of={stateWord(of.state)} />
        <span class="soft small">{of.reason}</span>
        <span class="push soft small">began {moment(Date.parse(of.began) / 1000)}, {seconds(of.wall_s)}</span>
      </header>
      <div class="body pile">
        <div class="result">
          <div>
            <b class="figure">{percent(best?.success)}</b>
            {best?.n ? <Interval low={best.low} high={best.high} at={best.success ?? null} goal={of.goal.success} /> : null}
            <p class="soft small">{confirmed ? "Confirmed on fresh starts" : "Champion on hidden starts"}{best?.n ? `: 95 % interval ${percent(best.low)} to ${percent(best.high)}, ${best.n} trials` : ": not measured"}{confirmed && `, at least ${percent(confirmed.bound)}`}; goal {goalText(of.goal)}<Truth of={of} /></p>
          </div>
          <dl class="pairs">
            <Dt of="Base" /><dd>{percent(of.base?.success)}{of.base?.n ? ` of ${of.base.n}` : ""}</dd>
            <Dt of="Robot time" /><dd>{of.robot_h.toFixed(2)} robot-hours</dd>
            <Dt of="Episodes" /><dd>{whole((of.episodes["total"] ?? 0) - of.released - (of.episodes["open"] ?? 0))}</dd>
          </dl>
        </div>
        {of.raised.length > 0 && (
          <div>
            <h3 class="small">What raised success</h3>
            <ul class="plain">
              {of.raised.map((one) => (
                <li class="beside" key={one.id}><span class="soft">{one.branch ? `branch ${one.branch}` : `round ${one.round}`}</span><Difference at={one.gain} low={one.low} high={one.high} />{one.rolled_back && <span class="soft small">rolled back: {one.rolled_back}</span>}</li>
              ))}
            </ul>
          </div>
        )}
        <div class="acts">
          {mayCommand.value && <a class="button primary" href="/start">▶ Start a campaign</a>}
          <a class="button" href={`/campaigns/${of.id}/report`}>Read the report</a>
          <a class="button" href={`/campaigns/${of.id}`}>Open the campaign</a>
          <a class="button" href={`/episodes?campaign=${of.id}`}>Episodes</a>
        </div>
      </div>
    </section>
  );
}

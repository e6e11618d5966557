/** What each agent session and the campaign spent, in all and per point of success that promoted candidates gained. */

import { whole } from "../format";
import type { CampaignView, KeptCost } from "../types";
import { Th } from "./Terms";

export function KeptPoints({ of }: { of: CampaignView }) {
  if (!of.kept_points.length) return null;
  return (
    <section class="card" aria-label="Cost of kept points">
      <header>
        <h2>Cost of kept points</h2>
        <span class="soft small push">a point: 1 % of success on hidden starts that a promoted candidate gained</span>
      </header>
      <div class="flush scroll">
        <table>
          <thead>
            <tr>
              <th>Agent session</th><Th of="Experiments" /><Th of="Kept points" />
              <th class="right" title="Of its search rollouts and gates; of the campaign all time of its robots">Robot-minutes</th>
              <Th of="Tokens" /><Th of="Robot-minutes per point" />
              <Th of="Tokens per point" /><Th of="Money per point" />
            </tr>
          </thead>
          <tbody>{of.kept_points.map((one) => <Row key={one.lane} of={one} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

function Row({ of }: { of: KeptCost }) {
  return (
    <tr>
      <td>{of.lane || <b>Campaign</b>}</td>
      <td class="right">{of.experiments}</td>
      <td class="right">{of.kept ? of.points.toFixed(1) : "–"}</td>
      <td class="right">{(of.robot_s / 60).toFixed(1)}</td>
      <td class="right">{whole(of.tokens)}</td>
      <td class="right">{of.robot_min_per_point == null ? "–" : of.robot_min_per_point.toFixed(2)}</td>
      <td class="right">{of.tokens_per_point == null ? "–" : whole(Math.round(of.tokens_per_point))}</td>
      <td class="right nowrap">{moneyText(of)}</td>
    </tr>
  );
}

function moneyText({ money_is_known: known, money_per_point: money }: KeptCost): string {
  if (!known) return "unknown";
  return Object.entries(money ?? {}).map(([currency, amount]) => `${amount.toFixed(4)} ${currency}`).join(" + ") || "–";
}

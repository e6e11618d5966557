/** What agents spent on language models: calls, tokens and money of each session, with its limits. */

import { whole } from "../format";
import type { CampaignView, LaneSpending } from "../types";
import { Th } from "./Terms";

export function Spending({ of }: { of: CampaignView }) {
  if (!of.spending) return null;
  const { lanes, total } = of.spending;
  return (
    <section class="card" aria-label="Spending of agents">
      <header><h2>Spending of agents</h2><span class="soft small push">by the providers' counts</span></header>
      <div class="flush scroll">
        <table>
          <thead>
            <tr>
              <th>Agent session</th><Th of="Calls" />
              <th class="right" title="Input tokens that the provider did not read from its cache">Fresh tokens</th>
              <th class="right" title="Input tokens that the provider read from its cache">Cached tokens</th>
              <Th of="Output tokens" />
              <th class="right" title="Tokens that count for the budget. Of a call of unknown outcome, the most that it could cost counts.">Counted of limit</th>
              <Th of="Money" />
            </tr>
          </thead>
          <tbody>{[...lanes, ...(lanes.length > 1 ? [total] : [])].map((one) => <Row key={one.lane} of={one} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

function Row({ of }: { of: LaneSpending }) {
  const odd = [of.failed && `${of.failed} failed`, of.lost && `${of.lost} of unknown outcome`].filter(Boolean).join(", ");
  return (
    <tr>
      <td>{of.lane || <b>All</b>}</td>
      <td class="right">{whole(of.calls)}{odd && <span class="soft small"> ({odd})</span>}</td>
      <td class="right">{whole(of.fresh + of.cache_write)}</td>
      <td class="right">{whole(of.cache_read)}</td>
      <td class="right">{whole(of.output)}</td>
      <td class="right">{whole(of.counted_for_budget)}{of.tokens_limit ? <span class="soft small"> of {whole(of.tokens_limit)}</span> : ""}</td>
      <td class="right nowrap">{moneyText(of)}</td>
    </tr>
  );
}

function moneyText({ money, calls_of_unknown_cost: unknown, money_limit: limit }: LaneSpending): string {
  const known = Object.entries(money).map(([currency, amount]) => `${amount.toFixed(2)} ${currency}`).join(" + ");
  const open = unknown ? `${unknown} call${unknown > 1 ? "s" : ""} of unknown cost` : "";
  return ([known, open].filter(Boolean).join(", ") || "–") + (limit ? ` (limit ${limit})` : "");
}

import { silent } from "../clock";
import { Empty, Failed, Live, Pill } from "../parts/Pieces";
import { Th } from "../parts/Terms";
import { useGet } from "../parts/use";
import { moment } from "../format";
import type { CampaignLine } from "../types";
import { mayCommand } from "../session";
import { fleet } from "../socket";
import { stateWord } from "../words";

export function CampaignsPage() {
  const running = fleet.value?.campaign;
  const { value, problem } = useGet<CampaignLine[]>("/campaigns", `${running?.id} ${running?.paused}`);
  return (
    <main>
      <div class="head"><h1>Campaigns</h1>{mayCommand.value && <a class="button push" href="/start">▶ Start a campaign</a>}</div>
      {problem && <Failed sentence={problem} />}
      {value && (
        <Live old={silent.value}>
          <section class="card flush">
            {value.length ? <Rows lines={value} /> : <Empty title="No campaign yet" />}
          </section>
        </Live>
      )}
    </main>
  );
}

function Rows({ lines }: { lines: CampaignLine[] }) {
  return (
    <div class="scroll">
      <table>
        <thead><tr><th>Campaign</th><th>Task</th><th>State</th><Th of="Began" /></tr></thead>
        <tbody>
          {lines.map((line) => (
            <tr class="pick" key={line.id} data-to={`/campaigns/${line.id}`}>
              <td><a href={`/campaigns/${line.id}`}><b>{line.name}</b></a> <span class="faint mono small">{line.id.slice(-6)}</span></td>
              <td>{line.task}</td>
              <td><Pill of={stateWord(line.state)} /></td>
              <td class="right soft">{line.began ? moment(Date.parse(line.began) / 1000) : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

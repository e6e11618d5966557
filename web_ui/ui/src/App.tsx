import { Shell } from "./parts/Shell";
import { CampaignPage } from "./pages/Campaign";
import { CampaignsPage } from "./pages/Campaigns";
import { ComparePage } from "./pages/Compare";
import { EpisodePage } from "./pages/Episode";
import { EpisodesPage } from "./pages/Episodes";
import { FailuresPage } from "./pages/Failures";
import { FleetPage } from "./pages/Fleet";
import { InboxPage } from "./pages/Inbox";
import { PoliciesPage } from "./pages/Policies";
import { ReportPage } from "./pages/Report";
import { SettingsPage } from "./pages/Settings";
import { StationPage } from "./pages/Station";
import { StartPage } from "./pages/Start";
import { SetUp, SignIn } from "./pages/SignIn";
import { decoded, path } from "./router";
import { signedIn } from "./session";

export function App() {
  const who = signedIn.value;
  if (!who) return <p class="visually-hidden">Loading</p>;
  if (!who.name) return who.setup ? <SetUp /> : <SignIn />;
  return <Shell>{page(path.value)}</Shell>;
}

function page(address: string) {
  const [first, id, part] = address.split("/").filter(Boolean);
  if (!first || first === "setup") return <FleetPage />;
  if (first === "campaigns" && id && part === "failures") return <FailuresPage key={id} id={id} />;
  if (first === "campaigns" && id && part === "report") return <ReportPage key={id} id={id} />;
  if (first === "campaigns") return id ? <CampaignPage key={id} id={id} /> : <CampaignsPage />;
  if (first === "episodes") return id ? <EpisodePage key={id} id={id} /> : <EpisodesPage />;
  if (first === "compare") return <ComparePage />;
  if (first === "policies") return <PoliciesPage />;
  if (first === "stations" && id) return <StationPage key={id} name={decoded(id)} />;
  if (first === "inbox") return <InboxPage />;
  if (first === "start") return <StartPage />;
  if (first === "settings") return <SettingsPage />;
  return (
    <main>
      <div class="card empty">
        <h1>There is no page {address}</h1>
        <a href="/">Go to the fleet</a>
      </div>
    </main>
  );
}

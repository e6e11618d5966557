/** The user's sessions, tokens and password; for admins also accounts and the audit log. */

import { useState } from "preact/hooks";
import { del, post, put } from "../api";
import { silent } from "../clock";
import { moment } from "../format";
import { Failed, Pill } from "../parts/Pieces";
import { Th } from "../parts/Terms";
import { sentence, useGet } from "../parts/use";
import { isAdmin, signedIn } from "../session";
import type { Role, WebhookState } from "../types";

interface KeyLine { id: string; kind: string; user: string; label: string; made_s: number; seen_s: number; ends_s: number; current: boolean }
interface UserLine { name: string; role: Role }
interface AuditLine { stamp_s: number; user: string; deed: string }

export function SettingsPage() {
  const [problem, setProblem] = useState("");
  const attempt = async (action: () => Promise<unknown>, after: () => void) => {
    try {
      await action();
      setProblem("");
      after();
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <main class="narrow">
      <h1>Settings</h1>
      {problem && <Failed sentence={problem} />}
      <fieldset class={`pile ${silent.value ? "greyed" : ""}`} disabled={silent.value}>
        <Keys attempt={attempt} />
        <Password attempt={attempt} />
        {isAdmin.value && <Webhook attempt={attempt} />}
        {isAdmin.value && <Users attempt={attempt} />}
        {isAdmin.value && <AuditLog />}
      </fieldset>
    </main>
  );
}

/** The address of a chat that gets a message when an operator is needed. The server never sends it back. */
function Webhook({ attempt }: { attempt: Attempt }) {
  const { value, again } = useGet<WebhookState>("/webhook");
  const keep = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    void attempt(() => put("/webhook", { address: String(new FormData(form).get("address")) }), () => { form.reset(); again(); });
  };
  const done = value?.sent ? `, ${value.sent} message${value.sent > 1 ? "s" : ""} sent` : "";
  return (
    <section class="card" id="webhook" aria-label="Webhook">
      <header><h2>Webhook</h2><span class="soft small push">{value ? (value.configured ? `set${done}` : "not set") : ""}</span></header>
      <form class="body filters" onSubmit={keep}>
        <label class="field">Address of the chat<input name="address" type="password" autocomplete="off" required placeholder="https://hooks.slack.com/services/…" maxLength={2000} /></label>
        <button>Save</button>
        {value?.configured && <button type="button" onClick={() => void attempt(() => post("/webhook/test", {}), again)}>Send a test</button>}
        {value?.configured && <button type="button" onClick={() => void attempt(() => put("/webhook", { address: "" }), again)}>Remove</button>}
      </form>
      {value?.problem && <p class="body problem small" role="alert">{value.problem}</p>}
      <p class="body soft small">The chat gets a message for each alarm that lasts 5 s and that no operator has acknowledged, at most one a minute for each cause. The address is kept in a file of the home that only its owner reads, and is never shown.</p>
      {value?.configured && <WebhookLinks of={value} />}
      {value?.configured && <WebhookImages of={value} allow={(allowed) => void attempt(() => put("/webhook/images", { allowed }), again)} />}
    </section>
  );
}

/** Where the links of messages lead, and what to do if only the machine of the lab can open them. */
function WebhookLinks({ of: { page, local } }: { of: WebhookState }) {
  if (!page) return <p class="body soft small">Messages have no link: this server knows no address of its page.</p>;
  return (
    <p class="body soft small" data-links={local ? "local" : "reached"}>
      Links in messages lead to <code>{page}</code>. {local
        ? <>Only the lab's machine can open this address. For links that other machines can open, start the page with <code>enpire serve --host 0.0.0.0</code>, open it under the name of the machine, and save the webhook again.</>
        : "A phone or a chat opens them only if it can reach this address."}
    </p>
  );
}

/** Images of the lab leave it only once an admin has ticked this. */
function WebhookImages({ of, allow }: { of: WebhookState; allow: (allowed: boolean) => void }) {
  return (
    <div class="body small" data-images={of.images}>
      <label class="check"><input type="checkbox" checked={of.images} onChange={(event) => allow(event.currentTarget.checked)} /> Send images of stations to the chat</label>
      <p class="soft">Off: no image leaves the lab. On: a message has a live image from when its alarm began. The chat loads it from this server, without signing in, for at most twelve hours. The chat's provider and everyone in the channel can see and keep it. Another address of the chat switches this off.</p>
      {of.images && !of.reached && <p class="problem" role="status">No image is sent: the chat cannot load one from {of.page || "this server"}, an address that only the lab's machine can open.</p>}
    </div>
  );
}

type Attempt = (action: () => Promise<unknown>, after: () => void) => Promise<void>;

function Keys({ attempt }: { attempt: Attempt }) {
  const { value, problem, again } = useGet<KeyLine[]>("/keys");
  const [secret, show] = useState("");
  const make = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const label = String(new FormData(form).get("label"));
    void attempt(async () => show((await post<{ secret: string }>("/keys", { label })).secret), () => { form.reset(); again(); });
  };
  return (
    <section class="card">
      <header><h2>Sessions and tokens</h2></header>
      <div class="flush scroll">
        {problem && <Failed sentence={problem} />}
        <table>
          <thead><tr><th>Type</th><th>User</th><th>Label</th><Th of="Last used" /><Th of="Ends" /><th><span class="visually-hidden">Commands</span></th></tr></thead>
          <tbody>
            {(value ?? []).map((key) => (
              <tr key={key.id}>
                <td class="nowrap">{key.kind === "token" ? "⚿ Token" : "⌂ Session"}{key.current && <span class="faint"> · current</span>}</td>
                <td>{key.user}</td>
                <td class="small soft cut" title={key.label}>{key.label}</td>
                <td class="right small nowrap">{moment(key.seen_s)}</td>
                <td class="right small nowrap">{moment(key.ends_s)}</td>
                <td class="right">{!key.current && <button class="quiet" onClick={() => void attempt(() => del(`/keys/${key.id}`), again)}>End</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="body">
        <form class="filters" onSubmit={make}>
          <label class="field">New token for a script<input name="label" placeholder="purpose" required maxLength={120} /></label>
          <button>Create a token</button>
        </form>
        {secret && (
          <p style={{ marginTop: "0.8rem" }}>Copy the token now. It is shown only once: <code>{secret}</code></p>
        )}
      </div>
    </section>
  );
}

function Password({ attempt }: { attempt: Attempt }) {
  const [done, setDone] = useState(false);
  const change = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    void attempt(() => put("/session/password", Object.fromEntries(new FormData(form))), () => { form.reset(); setDone(true); });
  };
  return (
    <section class="card">
      <header><h2>Password</h2><span class="soft small push">changing it ends all your other sessions and tokens</span></header>
      <div class="body">
        <form class="filters" onSubmit={change}>
          <input type="text" name="user" autocomplete="username" value={signedIn.value?.name} hidden disabled />
          <label class="field">Current password<input name="present" type="password" autocomplete="current-password" required /></label>
          <label class="field">New password<input name="fresh" type="password" autocomplete="new-password" minLength={10} required /></label>
          <button>Change the password</button>
          {done && <span class="calm-line">✓ changed</span>}
        </form>
      </div>
    </section>
  );
}

function Users({ attempt }: { attempt: Attempt }) {
  const { value, again } = useGet<UserLine[]>("/users");
  const add = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    void attempt(() => post("/users", Object.fromEntries(new FormData(form))), () => { form.reset(); again(); });
  };
  return (
    <section class="card">
      <header><h2>Users</h2><span class="soft small push">a viewer watches and stops robots · an operator sends all commands · an admin also manages accounts</span></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Name</th><th>Role</th><th><span class="visually-hidden">Commands</span></th></tr></thead>
          <tbody>
            {(value ?? []).map((user) => (
              <tr key={user.name}>
                <td>{user.name}</td>
                <td><Pill of={{ icon: "☺", word: user.role, tone: user.role === "admin" ? "busy" : "calm" }} /></td>
                <td class="right">{user.name !== signedIn.value?.name && <button class="quiet" onClick={() => void attempt(() => del(`/users/${user.name}`), again)}>Remove</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="body">
        <form class="filters" onSubmit={add}>
          <label class="field">Name<input name="name" autocomplete="off" required /></label>
          <label class="field">Role<select name="role"><option>viewer</option><option selected>operator</option><option>admin</option></select></label>
          <label class="field">Password<input name="password" type="password" minLength={10} autocomplete="new-password" required /></label>
          <button>Add user</button>
        </form>
      </div>
    </section>
  );
}

function AuditLog() {
  const { value } = useGet<AuditLine[]>("/users/audit");
  return (
    <section class="card">
      <header><h2>Audit log of the accounts</h2></header>
      <div class="flush scroll">
        <table>
          <tbody>
            {(value ?? []).slice(0, 20).map((one) => <tr><td class="small soft nowrap">{moment(one.stamp_s)}</td><td>{one.user}</td><td>{one.deed}</td></tr>)}
          </tbody>
        </table>
      </div>
    </section>
  );
}

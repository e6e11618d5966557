import { useState } from "preact/hooks";
import { Problem } from "../api";
import { useTitle } from "../parts/title";
import { setUp, signIn } from "../session";

function Brand({ children }: { children: string }) {
  return (
    <div>
      <h1 class="brand"><img src="/icon.svg" alt="" />ENPIRE</h1>
      <p class="soft" style={{ marginTop: "0.5rem" }}>{children}</p>
    </div>
  );
}

function useForm(send: (data: FormData) => Promise<void>) {
  const [problem, setProblem] = useState("");
  const [busy, work] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    work(true);
    try {
      await send(new FormData(event.target as HTMLFormElement));
    } catch (error) {
      setProblem(error instanceof Problem ? error.message : String(error));
    } finally {
      work(false);
    }
  };
  return { problem, busy, submit };
}

export function SignIn() {
  useTitle("Sign in · ENPIRE");
  const { problem, busy, submit } = useForm((data) => signIn(String(data.get("name")), String(data.get("password"))));
  return (
    <main class="gate-in">
      <form class="card" onSubmit={submit}>
        <Brand>Sign in to watch and command the fleet.</Brand>
        {problem && <div class="notice" role="alert">{problem}</div>}
        <label class="field">Name<input name="name" autocomplete="username" autofocus required /></label>
        <label class="field">Password<input name="password" type="password" autocomplete="current-password" required /></label>
        <button class="primary" disabled={busy}>Sign in</button>
      </form>
    </main>
  );
}

export function SetUp() {
  useTitle("Set up · ENPIRE");
  const secret = location.hash.slice(1);
  const { problem, busy, submit } = useForm(async (data) => {
    await setUp(secret, String(data.get("name")), String(data.get("password")));
  });
  if (!secret) {
    return (
      <main class="gate-in">
        <form class="card">
          <Brand>This lab has no admin yet.</Brand>
          <p>Open the set-up link that the server printed when it started. It works once and ends in <code>/setup#…</code></p>
        </form>
      </main>
    );
  }
  return (
    <main class="gate-in">
      <form class="card" onSubmit={submit}>
        <Brand>Create the first account, an admin of this lab. The link works once.</Brand>
        {problem && <div class="notice" role="alert">{problem}</div>}
        <label class="field">Name<input name="name" autocomplete="username" pattern="[a-z][a-z0-9._\-]{0,31}" title="starts with a-z; then a-z, 0-9, dot, dash, underscore" autofocus required /></label>
        <label class="field">Password, 10 characters or more<input name="password" type="password" autocomplete="new-password" minLength={10} required /></label>
        <button class="primary" disabled={busy}>Create the admin</button>
      </form>
    </main>
  );
}

/** Who is signed in. */

import { computed, signal } from "@preact/signals";
import { del, get, post, Problem } from "./api";
import { go } from "./router";
import { close, onSignedOut, open } from "./socket";
import type { Role } from "./types";

export interface SignInStatus { name: string; role: Role | ""; setup: boolean; /** Whether this server shows the bundled example, which nothing changes. */ example?: boolean }

/** Undefined until the server answers. */
export const signedIn = signal<SignInStatus | undefined>(undefined);
export const mayCommand = computed(() => signedIn.value?.role === "operator" || signedIn.value?.role === "admin");
export const isExample = computed(() => Boolean(signedIn.value?.example));
export const isAdmin = computed(() => signedIn.value?.role === "admin");

function begin(found: SignInStatus): void {
  signedIn.value = found;
  if (found.name) open();
}

export async function ask(): Promise<void> {
  begin(await get<SignInStatus>("/session"));
}

export async function signIn(name: string, password: string): Promise<void> {
  begin(await post<SignInStatus>("/session", { name, password }));
}

export async function setUp(secret: string, name: string, password: string): Promise<void> {
  begin(await post<SignInStatus>("/setup", { secret, name, password }));
  go("/");
}

export async function signOut(): Promise<void> {
  await del("/session").catch((error: unknown) => {
    if (!(error instanceof Problem && error.status === 401)) throw error; // 401: it has ended already
  });
  forget();
}

function forget(): void {
  close();
  signedIn.value = { name: "", role: "", setup: false };
}
onSignedOut.run = forget;

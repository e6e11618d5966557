/** Who is signed in. */

import { computed, signal } from "@preact/signals";
import { del, get, post } from "./api";
import { go } from "./router";
import { close, onSignedOut, open } from "./socket";
import type { Role } from "./types";

export interface Standing { name: string; role: Role | ""; setup: boolean }

/** Undefined until the server was asked. */
export const standing = signal<Standing | undefined>(undefined);
export const mayCommand = computed(() => standing.value?.role === "operator" || standing.value?.role === "admin");
export const isAdmin = computed(() => standing.value?.role === "admin");

function begin(found: Standing): void {
  standing.value = found;
  if (found.name) open();
}

export async function ask(): Promise<void> {
  begin(await get<Standing>("/session"));
}

export async function signIn(name: string, password: string): Promise<void> {
  begin(await post<Standing>("/session", { name, password }));
}

export async function setUp(secret: string, name: string, password: string): Promise<void> {
  begin(await post<Standing>("/setup", { secret, name, password }));
  go("/");
}

export async function signOut(): Promise<void> {
  await del("/session");
  forget();
}

function forget(): void {
  close();
  standing.value = { name: "", role: "", setup: false };
}
onSignedOut.run = forget;

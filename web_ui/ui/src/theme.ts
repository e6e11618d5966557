/** Light, dark, or the setting of the system. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const ORDER: Theme[] = ["system", "light", "dark"];
const kept = localStorage.getItem("enpire-theme") as Theme | null;

export const theme = signal<Theme>(kept && ORDER.includes(kept) ? kept : "system");
/** Incremented when colours change, so that charts are drawn again. */
export const painted = signal(0);

export function applyTheme(): void {
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  painted.value += 1;
}

export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length] ?? "system";
  localStorage.setItem("enpire-theme", theme.value);
  applyTheme();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

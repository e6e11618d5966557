/** The address bar as a signal. */

import { signal } from "@preact/signals";

export const path = signal(location.pathname);
export const query = signal(new URLSearchParams(location.search));

function read(): void {
  path.value = location.pathname;
  query.value = new URLSearchParams(location.search);
}
addEventListener("popstate", read);
/** A part of an address as text; as it is where its encoding is broken. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
/** The element that the address names after `#`; empty for none. */
export const anchor = (): string => decoded(location.hash.slice(1));

export function go(address: string): void {
  history.pushState(null, "", address);
  read();
  scrollTo(0, 0);
}

/** Change the query of the address without a new history entry. */
export function tune(changes: Record<string, string>): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  history.replaceState(null, "", text ? `${location.pathname}?${text}` : location.pathname);
  read();
}

/** Handle clicks on links to this host and on table rows with a target; the browser handles all other clicks. */
addEventListener("click", (event) => {
  const at = event.target as Element | null;
  const link = at?.closest?.("a[href]") as HTMLAnchorElement | null;
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (!link) {
    const row = at?.closest?.("[data-to]") as HTMLElement | null;
    if (row) go(row.dataset["to"]!);
    return;
  }
  if (link.origin !== location.origin || link.target || link.pathname.startsWith("/api/")) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
});

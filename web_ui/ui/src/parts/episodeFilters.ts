/** Which episodes a list shows, as its address says it and as the server is asked. */

const NAMES = ["campaign", "outcome", "purpose", "round", "station", "policy"];
/** Stands in the address for every order, also those that have not ended; without a choice only ended ones are shown. */
export const ANY = "any";

/** The filters of an address, which links to and from an episode carry along. */
export function kept(address: URLSearchParams): URLSearchParams {
  const found = new URLSearchParams();
  for (const name of NAMES) {
    const value = address.get(name);
    if (value) found.set(name, value);
  }
  return found;
}

/** What the server is asked for. */
export function asked(address: URLSearchParams): URLSearchParams {
  const wanted = kept(address);
  if (!wanted.has("outcome")) wanted.set("outcome", "ended");
  else if (wanted.get("outcome") === ANY) wanted.delete("outcome");
  return wanted;
}

/** What is wrong with an address that somebody typed, in one sentence; empty when nothing is. */
export function mistake(address: URLSearchParams): string {
  const round = address.get("round");
  if (!round || (/^\d+$/.test(round) && Number(round) <= 2 ** 31)) return "";
  return `There is no round “${round.slice(0, 40)}”: rounds are whole numbers from 0.`;
}

/** An episode's address carries the filters of its list, so that `n` there means the next of this list. */
export function addressOf(id: string, address: URLSearchParams): string {
  const filters = kept(address);
  filters.delete("campaign");
  return `/episodes/${id}${filters.size ? `?${filters}` : ""}`;
}

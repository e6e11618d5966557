/** Filters of the list of episodes, in the page's address and in requests to the server. */

const NAMES = ["campaign", "outcome", "purpose", "round", "station", "policy", "starts", "label", "p_v", "interventions", "cluster"];
/** Value of `outcome` for all orders, also open ones. Without a value, only episodes are shown: orders that ran and ended. */
export const ANY = "any";

/** The filters of an address. Links to and from an episode keep them. */
export function kept(address: URLSearchParams): URLSearchParams {
  const found = new URLSearchParams();
  for (const name of NAMES) {
    const value = address.get(name);
    if (value) found.set(name, value);
  }
  return found;
}

/** The filters of the request to the server. */
export function asked(address: URLSearchParams): URLSearchParams {
  const wanted = kept(address);
  if (!wanted.has("outcome")) wanted.set("outcome", "ran");
  else if (wanted.get("outcome") === ANY) wanted.delete("outcome");
  return wanted;
}

/** One sentence about an invalid filter in the address; empty when all are valid. */
export function mistake(address: URLSearchParams): string {
  const round = address.get("round");
  if (!round || (/^\d+$/.test(round) && Number(round) <= 2 ** 31)) return "";
  return `“${round.slice(0, 40)}” is not a round. Rounds are whole numbers from 0.`;
}

/** The address of an episode, with the filters of its list, so that `n` opens the next episode of that list. */
export function addressOf(id: string, address: URLSearchParams): string {
  const filters = kept(address);
  filters.delete("campaign");
  return `/episodes/${id}${filters.size ? `?${filters}` : ""}`;
}

/** Calls of the REST API. Every refusal is a Problem with one clear sentence. */

export class Problem extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

/** Longest time to wait for an answer, enough to read a large ledger. */
const TIMEOUT_MS = 30_000;

interface More { headers?: Record<string, string>; timeout_ms?: number }

async function call<T>(method: string, path: string, body?: unknown, { headers = {}, timeout_ms = TIMEOUT_MS }: More = {}): Promise<T> {
  let response: Response, answer: unknown;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers: body === undefined ? headers : { "content-type": "application/json", ...headers },
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      signal: AbortSignal.timeout(timeout_ms),
    });
    const hasBody = response.status !== 204 && response.headers.get("content-type")?.includes("json");
    answer = hasBody ? await response.json() : response.ok && response.status !== 204 ? await response.text() : undefined;
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Problem(0, `The server did not answer${late ? ` within ${timeout_ms / 1000} s` : ""}. Check that it still runs.`);
  }
  if (response.ok) return answer as T;
  throw new Problem(response.status, sentenceOf(answer) ?? `The server answered ${response.status}.`);
}

function sentenceOf(answer: unknown): string | undefined {
  if (typeof answer === "object" && answer !== null && "detail" in answer) return String(answer.detail);
  return undefined;
}

export const get = <T>(path: string) => call<T>("GET", path);
export const post = <T>(path: string, body: unknown, more?: More) => call<T>("POST", path, body, more);
/** A file that the server makes for a request. */
export async function postForFile(path: string, body: unknown): Promise<Blob> {
  const response = await fetch(`/api/v1${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), credentials: "same-origin", signal: AbortSignal.timeout(300_000) });
  if (response.ok) return response.blob();
  throw new Problem(response.status, sentenceOf(await response.json().catch(() => undefined)) ?? `The server answered ${response.status}.`);
}

/** A document that is no JSON. The report takes as long as the records are large. */
export const text = (path: string) => call<string>("GET", path, undefined, { timeout_ms: 300_000 });
export const put = (path: string, body: unknown) => call<void>("PUT", path, body);
export const del = (path: string) => call<void>("DELETE", path);

/** A key for one command: the server runs requests with the same key once. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

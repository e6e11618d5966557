/** Load a document: once, again when its path or `when` changes, and again when the server is back after a failure. */

import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "../api";
import { connected } from "../socket";

export interface Loaded<T> { value?: T; problem?: string; again: () => void }

/** An empty path loads nothing. The old document stays until the new one is there. */
export function useGet<T>(path: string, when?: unknown): Loaded<T> {
  const [state, put] = useState<{ path: string; value?: T; problem?: string }>({ path });
  const [turn, next] = useState(0);
  const again = () => next((now) => now + 1);
  useEffect(() => {
    if (!path) return;
    let gone = false;
    get<T>(path)
      .then((value) => gone || put({ path, value }))
      .catch((error: unknown) => gone || put({ path, problem: sentence(error) }));
    return () => {
      gone = true;
    };
  }, [path, turn, when]);
  const fresh = state.path === path ? state : { path };
  useBack(fresh.problem, again);
  return { value: fresh.value, problem: fresh.problem, again } as Loaded<T>;
}

/** Repeat a failed request when the connection to the server is back. */
export function useBack(problem: string | undefined, again: () => void): void {
  const there = connected.value;
  useEffect(() => void (there && problem && again()), [there]);
}

export const sentence = (error: unknown): string => (error instanceof Problem ? error.message : String(error));

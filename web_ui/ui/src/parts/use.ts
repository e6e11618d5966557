/** Load something once, or again when its key changes. */

import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "../api";

export interface Loaded<T> { value?: T; problem?: string; again: () => void }

export function useGet<T>(path: string): Loaded<T> {
  const [state, put] = useState<{ path: string; value?: T; problem?: string }>({ path });
  const [turn, next] = useState(0);
  useEffect(() => {
    let gone = false;
    get<T>(path)
      .then((value) => gone || put({ path, value }))
      .catch((error: unknown) => gone || put({ path, problem: error instanceof Problem ? error.message : String(error) }));
    return () => {
      gone = true;
    };
  }, [path, turn]);
  const fresh = state.path === path ? state : { path };
  return { value: fresh.value, problem: fresh.problem, again: () => next(turn + 1) } as Loaded<T>;
}

/** The campaigns that wait in this home, and those that could not start. */

import { Th } from "./Terms";
import { useEffect } from "preact/hooks";
import { del } from "../api";
import { silent } from "../clock";
import { clock } from "../format";
import { mayCommand } from "../session";
import type { QueueLine } from "../types";
import { useGet } from "./use";

const POLL_MS = 2000;

export function Queue({ when }: { when?: unknown }) {
  const queue = useGet<QueueLine[]>("/queue", when);
  useEffect(() => {
    const timer = setInterval(() => silent.value || queue.again(), POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const lines = queue.value ?? [];
  if (!lines.length) return null;
  const remove = (id: string) => void del(`/queue/${id}`).finally(queue.again);
  return (
    <section class="card" aria-label="Queue">
      <header><h2>Queue</h2><span class="soft small push">a campaign starts when no other runs in this home</span></header>
      <div class="flush scroll">
        <table>
          <thead><tr><th>Campaign</th><th>Task</th><th>Requested by</th><Th of="Requested" /><th>State</th><th><span class="visually-hidden">Commands</span></th></tr></thead>
          <tbody>
            {lines.map((line) => (
              <tr key={line.id}>
                <td><b>{line.name}</b></td><td>{line.task}</td><td>{line.by}</td><td class="right soft">{clock(line.asked_ms)}</td>
                <td class="small">{line.why ? <span class="bad">Did not start: {line.why}</span> : "Waits"}</td>
                <td class="right">{mayCommand.value && <button class="quiet" onClick={() => remove(line.id)} aria-label={`Remove ${line.name}`}>Remove</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

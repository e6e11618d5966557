/** Tasks that agents wrote: who wrote each, what was measured, its code, and the approval of an admin. */

import { computed } from "@preact/signals";
import { useState } from "preact/hooks";
import { get, post } from "../api";
import { silent } from "../clock";
import { question, refusal } from "../command";
import { percent } from "../format";
import { isAdmin } from "../session";
import { tasks } from "../socket";
import type { AuthoredTask, TaskFiles } from "../types";
import { Failed } from "./Pieces";
import { sentence } from "./use";

const DIGITS = 12;

/** Whether a person has not yet decided about its present files. */
const waits = (task: AuthoredTask): boolean => task.state !== "withdrawn" && task.approved !== (task.digest || "-");
const known = computed(() => Object.values(tasks.value?.tasks ?? {}));
/** The tasks that the signed-in user can decide about now. */
export const answerable = computed(() => (isAdmin.value ? known.value.filter((task) => waits(task) && !task.refused) : []));

export function AuthoredTasks() {
  const value = known.value;
  if (tasks.value?.problem) return <Failed sentence={tasks.value.problem} />;
  if (!value.length) return null;
  const waiting = value.filter(waits), others = value.filter((task) => !waits(task));
  return (
    <section class="card" aria-label="Tasks of agents">
      <header><h2>Tasks of agents <span class="faint">{waiting.length || ""}</span></h2><span class="soft small push">no campaign uses a task before an admin approves its files</span></header>
      <ul class="inbox">{[...waiting.reverse(), ...others.reverse()].map((task) => <TaskCard key={task.id} task={task} />)}</ul>
    </section>
  );
}

function TaskCard({ task }: { task: AuthoredTask }) {
  const [shown, show] = useState<TaskFiles>();
  const read = () => {
    get<TaskFiles>(`/tasks/authored/${encodeURIComponent(task.id)}/files`).then(show).catch((error: unknown) => (refusal.value = sentence(error)));
  };
  return (
    <li class={waits(task) ? "warn" : "seen"} data-task={task.id} data-state={task.state}>
      <div>
        <b><span aria-hidden="true">{waits(task) ? "☝ " : ""}</span>{task.about || "A task without a description"}</b>
        <p class="small"><span class="mono">{task.id}</span> <span class="soft">· written by {task.author || "an agent that is not known"}{task.lane && `, session ${task.lane}`} · {task.state}{task.by && ` by ${task.by}`}{task.reason && `: ${task.reason}`}</span></p>
        <Measured task={task} />
        {task.approved === task.digest && task.approved && <p class="soft small">Campaign and station files name it <code>{task.name}</code>.</p>}
        {task.approved && task.approved !== task.digest && <p class="small problem">Its files changed after they were approved, so nothing loads it.</p>}
        {task.refused && <p class="small problem">It cannot be approved. {task.refused}</p>}
      </div>
      <span class="acts">
        <button aria-expanded={Boolean(shown)} onClick={() => (shown ? show(undefined) : read())}>{shown ? "Hide the code" : "Show the code"}</button>
        {isAdmin.value && <Answers task={task} shown={shown} />}
      </span>
      {shown && <Code of={shown} changed={shown.digest !== task.digest} read={read} />}
    </li>
  );
}

/** What the score says of the present files. */
function Measured({ task: { score } }: { task: AuthoredTask }) {
  if (!score) return <p class="soft small">Not measured.</p>;
  const rate = (value?: number | null) => (value == null ? "not measured" : percent(value));
  return (
    <>
      <p class="soft small num">{score.passed} of {score.applied} checks pass · precision of its verifier {rate(score.precision)}, recall {rate(score.recall)}, on its own simulated episodes</p>
      {score.failed.length > 0 && <ul class="small problem">{score.failed.map((line) => <li>{line}</li>)}</ul>}
    </>
  );
}

function Answers({ task, shown }: { task: AuthoredTask; shown?: TaskFiles }) {
  const answer = (act: "approve" | "withdraw", seen: string) => async (reason: string) => {
    await post(`/tasks/authored/${encodeURIComponent(task.id)}/${act}`, { seen, reason });
  };
  const approve = () => shown && (question.value = {
    title: "Approve the task?", text: `Campaigns may use these files (${shown.digest.slice(0, DIGITS)}…) from then on. They run outside a sandbox, like the lab's own code. The record keeps your name and the reason.`,
    act: "Approve", reasoned: true, run: answer("approve", shown.digest),
  });
  const withdraw = () => (question.value = {
    title: "Withdraw the approval?", text: "Nothing loads the task from then on, and its campaigns do not resume. A campaign that runs keeps what it has loaded. The record keeps your name and the reason.",
    act: "Withdraw", reasoned: true, run: answer("withdraw", task.approved),
  });
  const why = task.refused || (shown ? "" : "Show the code first: you approve the files that you see");
  return (
    <>
      {(!task.approved || task.approved !== task.digest) && <button class="primary" disabled={silent.value || Boolean(why)} title={why || undefined} onClick={approve}>✓ Approve</button>}
      {task.approved && <button disabled={silent.value} onClick={withdraw}>✕ Withdraw</button>}
    </>
  );
}

/** The files as text. */
function Code({ of, changed, read }: { of: TaskFiles; changed: boolean; read: () => void }) {
  return (
    <div class="code">
      {changed && <p class="small problem">The files changed after they were shown. <button class="quiet" onClick={read}>Show them again</button></p>}
      <p class="soft small">sha256 of the files: <span class="mono">{of.digest}</span></p>
      {of.files.map((file) => (
        <section key={file.path}>
          <p class="small mono">{file.path}</p>
          <pre class="diff" tabIndex={0} aria-label={file.path}>{file.text}</pre>
        </section>
      ))}
    </div>
  );
}

/** Workloads as operators see and change them, read from and written to the cell: it works when all of Layer 1 is down. */
import { FlynnError } from '@flynn/kit/errors';
import { assignmentSchema, cellKeys, jobStatusSchema, workloadSchema } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import type { Workload } from '@flynn/scheduler/cell';
import type { Evaluation } from '@flynn/scheduler/evaluation';
import { demandOf, workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import type { EvaluationContext } from '@flynn/scheduler/evaluations';
import { seenStatus } from '@flynn/scheduler/lost-jobs';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { versionOf } from '@flynn/scheduler/template-version';
import { readWorkload } from '@flynn/scheduler/workload-file';
import { decodeJson } from '@flynn/store/codec';
import type { Entry, Store } from '@flynn/store/store';
import type { WorkloadDetail, WorkloadView } from './api.ts';

type Call = { signal: AbortSignal };
type ReadStore = Pick<Store, 'get' | 'list'>;

export async function listWorkloads(store: ReadStore, call: Call): Promise<WorkloadView[]> {
  const { entries } = await store.list(cellKeys.workloads, call);
  const [statuses, evaluations, templates] = await Promise.all([
    readStatuses(store, call),
    listEvaluations(store, undefined, call),
    store.list(cellKeys.templates, call),
  ]);
  const byKey = new Map(templates.entries.map((entry) => [entry.key, entry]));
  const byWorkload = Map.groupBy(statuses, ({ workloadId }) => workloadId);
  return entries.map((entry) => {
    const workload = workloadIn(entry);
    const template = templateIn(byKey.get(cellKeys.template(workload.id, workload.version)));
    return viewOf(workload, byWorkload.get(workload.id) ?? [], evaluations, template);
  });
}

export async function findWorkload(store: ReadStore, id: string, call: Call): Promise<WorkloadDetail> {
  const entry = await store.get(cellKeys.workload(id), call);
  if (entry === undefined) throw noWorkload(id);
  const workload = workloadIn(entry);
  const [statuses, evaluations, template] = await Promise.all([
    readStatuses(store, call),
    listEvaluations(store, id, call),
    store.get(cellKeys.template(id, workload.version), call).then(templateIn),
  ]);
  const list = statuses.filter(({ workloadId }) => workloadId === id).toSorted((a, b) => b.createdAt - a.createdAt);
  return { ...viewOf(workload, list, evaluations, template), ...(template === undefined ? {} : { template }), list };
}

/** `value` is what a workload file says. `conflict` for an app's workload, and for a version that is something else already. */
export async function applyWorkload(
  store: Pick<Store, 'get' | 'transact'>,
  id: string,
  value: unknown,
  options: Call & EvaluationContext,
): Promise<{ workload: Workload; isNew: boolean }> {
  const { template, ...wanted } = readWorkload(value, `workload ${id}`);
  if (wanted.id !== id) throw new FlynnError('invalid', `the workload's id is ${wanted.id}, not ${id}`);
  const call = { signal: options.signal };
  const key = cellKeys.workload(id);
  const templateKey = cellKeys.template(id, wanted.version);
  for (;;) {
    const [known, other] = await Promise.all([store.get(key, call), store.get(templateKey, call)]);
    if (known !== undefined) await assertNoApp(store, known, call);
    const otherTemplate = templateIn(other);
    if (otherTemplate !== undefined && versionOf(otherTemplate) !== versionOf(template)) {
      throw new FlynnError(
        'conflict',
        `version ${wanted.version} of ${id} has another template already: name another version, or none`,
      );
    }
    const { succeeded } = await store.transact(
      {
        compare: [
          { key, modRevision: known?.modRevision ?? 0 },
          { key: templateKey, modRevision: other?.modRevision ?? 0 },
        ],
        then: workloadChange({ ...wanted, template }, options),
      },
      call,
    );
    if (succeeded) return { workload: { ...wanted, demand: demandOf(id, template) }, isNew: known === undefined };
  }
}

/** Its jobs are stopped. `conflict` for an app's workload. */
export async function removeWorkload(
  store: Pick<Store, 'get' | 'transact'>,
  id: string,
  options: Call & EvaluationContext,
): Promise<void> {
  const call = { signal: options.signal };
  for (;;) {
    const known = await store.get(cellKeys.workload(id), call);
    if (known === undefined) throw noWorkload(id);
    await assertNoApp(store, known, call);
    const { succeeded } = await store.transact(
      { compare: [{ key: known.key, modRevision: known.modRevision }], then: workloadRemoval(id, options) },
      call,
    );
    if (succeeded) return;
  }
}

/** Newest first. */
export async function listEvaluations(
  store: Pick<Store, 'list'>,
  workloadId: string | undefined,
  call: Call,
): Promise<Evaluation[]> {
  const { entries } = await store.list(cellKeys.evaluations, call);
  return entries
    .map(({ value, key }) => decodeJson(evaluationSchema, value, key))
    .filter((evaluation) => workloadId === undefined || evaluation.workloadId === workloadId)
    .toSorted((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
}

/** As they are to be read: hosts that are away said it before they went. */
async function readStatuses(store: Pick<Store, 'list'>, call: Call): Promise<SeenStatus[]> {
  const { entries, revision } = await store.list(cellKeys.status, call);
  const at = { ...call, revision };
  const [hosts, assignments] = await Promise.all([
    store.list(cellKeys.hosts, at),
    store.list(cellKeys.assignments, at),
  ]);
  const present = new Set(hosts.entries.map(({ key }) => key.slice(cellKeys.hosts.length)));
  const assigned = new Set(
    assignments.entries.flatMap(({ key, value }) =>
      decodeJson(assignmentSchema, value, key).groups.flatMap(({ jobs }) => jobs.map(({ id }) => id)),
    ),
  );
  return entries.map(({ key, value }) => {
    const status = decodeJson(jobStatusSchema, value, key);
    return seenStatus(status, { isThere: present.has(status.hostId), isAssigned: assigned.has(status.id) });
  });
}

function viewOf(
  workload: Workload,
  statuses: readonly SeenStatus[],
  evaluations: readonly Evaluation[],
  template: JobTemplate | undefined,
): WorkloadView {
  const byState = Map.groupBy(statuses, ({ state }) => state);
  const waiting = reasonOf(evaluations.filter(({ workloadId }) => workloadId === workload.id));
  const app = appOf(template);
  return {
    workload,
    jobs: Object.fromEntries([...byState].map(([state, { length }]) => [state, length])),
    ...(waiting === undefined ? {} : { waiting }),
    ...(app === undefined ? {} : { app }),
  };
}

/** Of one workload's evaluations, newest first: what waits says why, else what failed and was not made good since. */
function reasonOf(evaluations: readonly Evaluation[]): string | undefined {
  const blocked = evaluations.find(({ state }) => state === 'blocked');
  if (blocked !== undefined) return blocked.reason;
  const last = evaluations.find(({ state }) => state === 'complete' || state === 'failed');
  return last?.state === 'failed' ? last.reason : undefined;
}

/** Layer 1 would put it back, or lose track of it. */
async function assertNoApp(store: Pick<Store, 'get'>, entry: Entry, call: Call): Promise<void> {
  const { id, version } = workloadIn(entry);
  const app = appOf(templateIn(await store.get(cellKeys.template(id, version), call)));
  if (app === undefined) return;
  throw new FlynnError('conflict', `${id} is of the app ${app}: change it with "flynn -a ${app}", for example scale`);
}

function appOf(template: JobTemplate | undefined): string | undefined {
  return template?.meta['flynn.app_name'] ?? template?.meta['flynn.app'];
}

function workloadIn({ value, key }: Entry): Workload {
  return decodeJson(workloadSchema, value, key);
}

function templateIn(entry: Entry | undefined): JobTemplate | undefined {
  return entry === undefined ? undefined : decodeJson(jobTemplateSchema, entry.value, entry.key);
}

function noWorkload(id: string): FlynnError {
  return new FlynnError('not_found', `there is no workload ${id}: "flynn-host workload list" names them`);
}

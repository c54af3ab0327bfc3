/** What steps are about, and what they are given: the datastore, its members, and the term in which something is written. */
import type { Appliance } from '@flynn/appliances/appliance';
import { FlynnError } from '@flynn/kit/errors';
import type { Compare } from '@flynn/store/store';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';
import type { Member } from './member.ts';
import type { BackupPlan } from './types.ts';

export type StepDeps = Pick<Deps, 'resources' | 'cell' | 'hosts' | 'log' | 'now'>;
export type StepOptions = Readonly<{
  signal: AbortSignal;
  epoch?: Compare;
  /** Nothing got on for so long: see making.ts. */
  quietMs?: number;
}>;
/** What a step is about. */
export type Subject = Readonly<{ app: AppResource; appliance: Appliance; plan: BackupPlan }>;

/** Another at each attempt, if there are several: any will do, as long as it runs. */
export function memberOf(
  { cell }: Pick<StepDeps, 'cell'>,
  { app, appliance }: Pick<Subject, 'app' | 'appliance'>,
  attempt: number,
): Member {
  const members = membersOf(cell, app, appliance);
  const member = members[(attempt - 1) % members.length];
  if (member !== undefined) return member;
  throw new FlynnError(
    'unavailable',
    `no member of ${app.spec.name} runs: flynn ps -a ${app.spec.name} says how they are`,
    { detail: { hasNoMember: true } },
  );
}

export function hasNoMember(error: unknown): boolean {
  return error instanceof FlynnError && error.detail['hasNoMember'] === true;
}

function membersOf(cell: StepDeps['cell'], app: AppResource, { name }: Appliance): Member[] {
  return statusesOfApp(cell, app.id)
    .filter(({ workloadId, state, isUncertain }) => {
      return workloadId.endsWith(`-${name}`) && state === 'running' && !isUncertain;
    })
    .map(({ hostId, id }) => ({ hostId, jobId: id }))
    .toSorted((a, b) => (a.jobId < b.jobId ? -1 : 1));
}

export function guard({ epoch }: StepOptions): () => { compare: Compare[] } {
  return () => ({ compare: epoch === undefined ? [] : [epoch] });
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

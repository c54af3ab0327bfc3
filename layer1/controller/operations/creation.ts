/** What does asking for new operations come to? Pure: what is asked for and what is known in, what is to be written out. */
import { FlynnError } from '@flynn/kit/errors';
import { hasOperationEnded } from './state.ts';
import type { OperationStatus } from './state.ts';
import type { OperationResource } from '../resources.ts';

type Spec = OperationResource['spec'];
export type NewOperation = { id: string; spec: Spec; expiresAt?: string | undefined };

/** How it is known: live or ended; `place` is its place in the queue. */
export type KnownOperation = { operation: OperationResource; place: number };

export type Creation = {
  /** To be written anew, in the order given. */
  fresh: { id: string; spec: Spec; status: OperationStatus }[];
  /** Live ones that from now on know who waits for them. */
  awaited: { before: OperationResource; after: OperationResource }[];
  /** Queued ones whose place a new one takes, by its id. */
  superseded: { operation: OperationResource; by: string }[];
};

const maxAtOnce = 30;
/** Ending one ends what waits for it in the same transaction. */
const maxDependents = 35;

/**
 * All of them or none. `known` has to answer for every id that is depended on, and `sameSingleton` for those of the app
 * that are queued under the same singleton id. Throws `invalid` for what can never run.
 */
export function planCreation(
  given: readonly NewOperation[],
  known: (id: string) => KnownOperation | undefined,
  sameSingleton: (spec: Spec) => readonly KnownOperation[],
): Creation {
  if (given.length > maxAtOnce)
    throw new FlynnError('invalid', `${given.length} operations at once are too many: ask for ${maxAtOnce} at most`);
  const byId = new Map(given.map((one) => [one.id, one]));
  if (byId.size < given.length) throw new FlynnError('invalid', 'two of the operations have the same id');
  for (const one of given) checkDependencies(one, byId, known);
  checkAcyclic(given, byId);
  const superseded = findSuperseded(given, sameSingleton);
  const dependents = dependentsOf(given);
  const awaited: Creation['awaited'] = [];
  for (const [id, ids] of dependents) {
    const before = byId.has(id) ? undefined : known(id)?.operation;
    if (before === undefined || hasOperationEnded(before.status.state)) continue;
    const all = [...new Set([...(before.status.dependents ?? []), ...ids])];
    awaited.push({ before, after: { ...before, status: { ...before.status, dependents: all } } });
  }
  const places = new Map(superseded.map(({ by, place }) => [by, place]));
  const fresh = given.map(({ id, spec, expiresAt }, rank) => {
    const place = places.get(id);
    return {
      id,
      spec,
      status: {
        state: 'queued' as const,
        output: {},
        ...(rank === 0 ? {} : { rank }),
        ...(place === undefined ? {} : { place }),
        ...(expiresAt === undefined ? {} : { expiresAt }),
        ...(dependents.has(id) ? { dependents: dependents.get(id) } : {}),
      },
    };
  });
  checkCrowd({ fresh, awaited }, known);
  return { fresh, awaited, superseded: superseded.map(({ operation, by }) => ({ operation, by })) };
}

function checkDependencies(
  { id, spec }: NewOperation,
  given: ReadonlyMap<string, NewOperation>,
  known: (id: string) => KnownOperation | undefined,
): void {
  const { dependsOn = [], mayFail = [] } = spec;
  const stray = mayFail.find((other) => !dependsOn.includes(other));
  if (stray !== undefined) {
    throw new FlynnError('invalid', `operation ${id} says that ${stray} may fail but does not depend on it`);
  }
  for (const other of dependsOn) {
    if (given.has(other)) continue;
    const found = known(other)?.operation;
    if (found === undefined) {
      throw new FlynnError(
        'invalid',
        `operation ${id} depends on ${other}, which there is not: create it before or along`,
      );
    }
    const { state } = found.status;
    if (!hasOperationEnded(state) || state === 'complete' || mayFail.includes(other)) continue;
    throw new FlynnError('invalid', `operation ${id} depends on ${other}, which is ${state}: it would never run`);
  }
}

/** Those that were there before depend on none of these. */
function checkAcyclic(given: readonly NewOperation[], byId: ReadonlyMap<string, NewOperation>): void {
  const done = new Set<string>();
  const visit = ({ id, spec }: NewOperation, path: readonly string[]): void => {
    if (path.includes(id)) {
      const circle = [...path.slice(path.indexOf(id)), id].join(' → ');
      throw new FlynnError('invalid', `the operations wait for each other: ${circle}`);
    }
    if (done.has(id)) return;
    for (const other of spec.dependsOn ?? []) {
      const next = byId.get(other);
      if (next !== undefined) visit(next, [...path, id]);
    }
    done.add(id);
  };
  for (const one of given) visit(one, []);
}

function dependentsOf(given: readonly NewOperation[]): Map<string, string[]> {
  const dependents = new Map<string, string[]>();
  for (const { id, spec } of given) {
    for (const other of new Set(spec.dependsOn)) dependents.set(other, [...(dependents.get(other) ?? []), id]);
  }
  return dependents;
}

function findSuperseded(
  given: readonly NewOperation[],
  sameSingleton: (spec: Spec) => readonly KnownOperation[],
): { operation: OperationResource; by: string; place: number }[] {
  const seen = new Set<string>();
  return given.flatMap(({ id, spec }) => {
    if (spec.singletonId === undefined) return [];
    const name = `${spec.appId}/${spec.singletonId}`;
    if (seen.has(name)) {
      throw new FlynnError('invalid', `two of the operations have the singleton id "${spec.singletonId}"`);
    }
    seen.add(name);
    const old = sameSingleton(spec).filter(({ operation }) => operation.status.state === 'queued');
    const clash = old.find((one) => spec.dependsOn?.includes(one.operation.id) === true);
    if (clash !== undefined) {
      throw new FlynnError(
        'invalid',
        `operation ${id} would take the place of ${clash.operation.id}, which it depends on`,
      );
    }
    const place = Math.min(...old.map((one) => one.place));
    return old.map(({ operation }) => ({ operation, by: id, place }));
  });
}

/** So many may wait for one, directly or not. */
function checkCrowd(
  { fresh, awaited }: Pick<Creation, 'fresh' | 'awaited'>,
  known: (id: string) => KnownOperation | undefined,
): void {
  const now = new Map(
    [...fresh, ...awaited.map(({ after }) => after)].map(({ id, status }) => [id, status.dependents ?? []]),
  );
  const dependents = (id: string) => now.get(id) ?? known(id)?.operation.status.dependents ?? [];
  const before = (id: string) => known(id)?.operation.spec.dependsOn ?? [];
  const isLive = (id: string) => {
    const found = known(id);
    return found !== undefined && !hasOperationEnded(found.operation.status.state);
  };
  const roots = awaited.map(({ after }) => after.id);
  for (const id of [...roots, ...reachable(roots, before)].filter(isLive)) {
    const { size } = reachable([id], dependents);
    if (size <= maxDependents) continue;
    throw new FlynnError(
      'exhausted',
      `${size} operations would wait for ${id}, ${maxDependents} may: ask again when it has ended`,
    );
  }
}

/** Without those it begins at. */
function reachable(from: readonly string[], next: (id: string) => readonly string[]): Set<string> {
  const found = new Set<string>();
  const left = from.flatMap((id) => next(id));
  for (let id = left.pop(); id !== undefined; id = left.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    left.push(...next(id));
  }
  return found;
}

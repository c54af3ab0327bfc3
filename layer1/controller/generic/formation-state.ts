/** What is so of the jobs that a live formation wants: have they a host, are they up, and since when? Pure. */
import type { Condition } from '@flynn/resource/condition';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { iso } from '../jobs/views.ts';
import type { Job } from '../model.ts';
import type { Process } from '../processes/process.ts';
import type { FormationResource } from '../resources.ts';

export type FormationFacts = Readonly<{
  formation: Pick<FormationResource, 'spec' | 'updatedAt'>;
  processes: Readonly<Record<string, Process>>;
  /** Of jobs of this release that have not ended. */
  statuses: readonly SeenStatus[];
  /** Jobs of this release that have no host yet. */
  waiting: readonly Pick<Job, 'error'>[];
  /** How many hosts there are for jobs of it. */
  hostsFor: (process: Process) => number;
}>;

export type FormationState = { up: Record<string, number>; conditions: Condition[] };

/** Placed: every job wanted has a host. Healthy: every one is up. */
export function formationState(facts: FormationFacts): FormationState {
  const { formation, statuses, waiting } = facts;
  const types = Object.entries(formation.spec.processes).map(([type, count]) => ofType(facts, type, count));
  const up = types.flatMap((one) => one.up);
  const missing = types.filter((one) => one.up.length < one.wanted);
  const why = waiting.find(({ error }) => error !== undefined)?.error;
  const isPlaced = waiting.length === 0;
  const isHealthy = missing.length === 0;
  // As far as it is known: what is missing was asked for then, or ended.
  const missingSince = latest(
    statuses.filter((status) => !up.includes(status)).map(({ endedAt }) => endedAt),
    formation.updatedAt,
  );
  const upSince = latest(up.map(({ startedAt }) => startedAt));
  const placedSince = latest(statuses.map(({ createdAt }) => createdAt));
  return {
    up: Object.fromEntries(types.map((one) => [one.type, one.up.length])),
    conditions: [
      {
        type: 'Healthy',
        status: isHealthy ? 'True' : 'False',
        reason: isHealthy ? 'AllUp' : 'Starting',
        message: missing.map(missingText).join(', '),
        since: isHealthy ? (upSince ?? formation.updatedAt) : (missingSince ?? formation.updatedAt),
      },
      {
        type: 'Placed',
        status: isPlaced ? 'True' : 'False',
        reason: isPlaced ? 'AllPlaced' : 'Waiting',
        message: isPlaced ? '' : `${waiting.length} without a host${why === undefined ? '' : `: ${why}`}`,
        since: isPlaced ? (placedSince ?? formation.updatedAt) : (missingSince ?? formation.updatedAt),
      },
    ],
  };
}

type OfType = Readonly<{ type: string; wanted: number; up: readonly SeenStatus[]; away: number }>;

function ofType({ statuses, processes, hostsFor }: FormationFacts, type: string, count: number): OfType {
  const own = statuses.filter(({ meta }) => meta['flynn.type'] === type);
  const process = Object.hasOwn(processes, type) ? processes[type] : undefined;
  const isOmni = process?.omni === true;
  const hosts = isOmni ? Math.min(Math.max(1, hostsFor(process)), process.maxHosts ?? Infinity) : 1;
  // Of a job whose host is away nobody knows whether it runs.
  const away = own.filter(({ isUncertain }) => isUncertain).length;
  const up = own.filter(({ state, isUncertain }) => state === 'running' && !isUncertain);
  return { type, wanted: count * hosts, up, away };
}

function missingText({ type, wanted, up, away }: OfType): string {
  const where = away === 0 ? '' : ` (and ${away} on hosts that are away)`;
  return `${up.length} of ${wanted} ${type} are up${where}`;
}

/** The last of these moments, and not before `from`. */
function latest(moments: readonly (number | undefined)[], from?: string): string | undefined {
  const known = [...moments, from === undefined ? undefined : Date.parse(from)].filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : iso(Math.max(...known));
}

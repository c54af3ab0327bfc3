/** How many jobs of a type may be wanted, and why no more or no fewer? Pure. */
import { nearestOf } from '@flynn/kit/config';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { isStanding } from '../processes/compile.ts';
import { isApart } from '../processes/constraints.ts';
import type { Process } from '../processes/process.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';

const maxCount = 10_000;

/** By process type. */
export type Counts = Readonly<Record<string, number>>;
type Named = Pick<AppResource['spec'], 'name' | 'isSystem'>;

/** Throws `invalid`. `kept`: what of types with a volume there are already, from before a second was refused: they stay. */
export function checkCounts({ spec: app }: AppResource, release: ReleaseResource, counts: Counts, kept: Counts): void {
  const { processes, version } = release.spec;
  const types = Object.keys(processes);
  for (const [type, count] of Object.entries(counts)) {
    const process = processes[type];
    if (process === undefined || !types.includes(type)) {
      const nearest = nearestOf(type, types);
      const known = types.length === 0 ? 'it has none' : `it has ${types.join(', ')}`;
      const hint = nearest === undefined || types.length < 2 ? '' : `; did you mean ${nearest}?`;
      throw new FlynnError(
        'invalid',
        `release v${version} of ${app.name} has no process type "${type}": ${known}${hint}`,
        {
          detail: { type, types },
        },
      );
    }
    if (count < 0) throw new FlynnError('invalid', `${type}=${count}: a count cannot be below zero`);
    if (count > maxCount) throw new FlynnError('invalid', `${type}=${count}: a count cannot be above ${maxCount}`);
    checkCount(app, { type, process, count }, kept);
  }
}

type Wanted = { type: string; process: Process; count: number };

/** The same of one type that is there. */
export function checkCount(app: Named, { type, process, count }: Wanted, kept: Counts): void {
  if (count > 1 && Object.hasOwn(kept, type) && count <= (kept[type] ?? 0)) return;
  const reason = count > 1 ? manyReason(app, type, process) : count === 0 ? noneReason(app, type) : undefined;
  if (reason !== undefined) throw new FlynnError('invalid', `${type}=${count}: ${reason}`);
}

/** Of these counts those of types with a volume that two jobs on one host could share: each host may have several. */
export function keptCounts(processes: Readonly<Record<string, Process>>, counts: Counts | undefined): Counts {
  const standing = Object.entries(counts ?? {}).filter(([type]) => {
    const process = Object.hasOwn(processes, type) ? processes[type] : undefined;
    return process !== undefined && mayShareVolumes(process);
  });
  return Object.fromEntries(standing);
}

function mayShareVolumes(process: Process): boolean {
  return isStanding(process) && !process.omni && !isApart(process);
}

/**
 * Of a release that is to take the place of another: what it has with a volume may run once, but for what runs more often with one
 * as it is. Throws `invalid`.
 */
export function checkCarriedCounts(
  { spec: app }: AppResource,
  release: ReleaseResource,
  counts: Counts,
  kept: Counts,
): void {
  const { processes, version } = release.spec;
  for (const [type, count] of Object.entries(keptCounts(processes, counts))) {
    const process = processes[type];
    if (process === undefined || count < 2) continue;
    try {
      checkCount(app, { type, process, count }, kept);
    } catch (error) {
      if (!hasCode(error, 'invalid')) throw error;
      const mend = `flynn -a ${app.name} scale ${type}=1`;
      const text = `v${version} of ${app.name} would run ${error.message}\n  ${mend}, then deploy it again`;
      throw new FlynnError('invalid', text, { cause: error });
    }
  }
}

/** What this API is reached by and runs on: by it alone they come back. */
const indispensable: ReadonlySet<string> = new Set(['controller web', 'controller worker', 'router web']);

/** Parts that the platform does as well without: nobody waits for them, and they may go. */
const dispensable: ReadonlySet<string> = new Set(['dashboard']);

export function isDispensable({ name, isSystem }: Named): boolean {
  return isSystem && dispensable.has(name);
}

export function isNameOfDispensable(name: string): boolean {
  return dispensable.has(name);
}

export function isIndispensable(app: Named, type: string): boolean {
  return app.isSystem && indispensable.has(`${app.name} ${type}`);
}

/** Why there may not be none of it. */
function noneReason(app: Named, type: string): string | undefined {
  if (!isIndispensable(app, type)) return undefined;
  return `without ${type} of ${app.name} nothing could be changed any more, nor this taken back: keep at least one`;
}

/** Why there may be no two of it, and what to do instead. */
function manyReason(app: Named, type: string, process: Process): string | undefined {
  if (process.omni) {
    const { maxHosts, constraints = [] } = process;
    const may = constraints.length === 0 ? '' : ' that meets its constraints';
    const where =
      maxHosts === undefined ? `every host${may} runs one` : `each of up to ${maxHosts} hosts${may} runs one`;
    const none = isIndispensable(app, type) ? '' : `, ${type}=0 none`;
    return `${where} of ${type} of ${app.name}, and there are more of it with more hosts: ${type}=1 has them run${none}`;
  }
  if (!mayShareVolumes(process)) return undefined;
  if (app.isSystem) {
    const what = `${type} of ${app.name} keeps its data on one host, and a second one would have none of it`;
    return `${what}. With more to do it takes more room: flynn -a ${app.name} limit set ${type} memory=1GB`;
  }
  const names = process.volumes.map(({ name }) => name).join(', ');
  const what = `${type} keeps data in a volume (${names}), which two of its jobs on one host would write at the same time`;
  const apart = `flynn -a ${app.name} constraint set ${type} distinct:host`;
  return `${what}: there is at most one of it, unless each is on a host of its own (${apart}) or a type of its own, as ${type}-a and ${type}-b`;
}

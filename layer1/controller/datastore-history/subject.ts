/** What steps of a history are about: the datastore, and what is kept of it, which is made where there is none. */
import type { Appliance, History } from '@flynn/appliances/appliance';
import { appliances } from '@flynn/appliances/appliances';
import { guard } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import type { BackupPlan } from '../datastore-backups/types.ts';
import { appType, formationType, ownedBy } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { readCatalogue } from './catalogue.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { defaultHistoryDays, endOf } from './plan.ts';
import { archiveType, historyType } from './types.ts';
import type { ArchiveResource, HistoryResource } from './types.ts';

export type HistorySubject = Readonly<{
  app: AppResource;
  appliance: Appliance;
  programs: History;
  plan: BackupPlan;
  history: HistoryResource;
  archive: ArchiveResource;
  /** Somebody wants it to run. */
  isWanted: boolean;
}>;

/** None where its appliance has no history. Not yet: its plan is not made, or nothing of it runs. */
export async function subjectOf(
  { resources, log }: StepDeps,
  blobs: HistoryBlobs,
  appId: string,
  options: StepOptions,
): Promise<HistorySubject | 'not yet' | undefined> {
  const { signal } = options;
  const app = await resources.find(appType, appId, { signal });
  const appliance = appliances.get(app?.spec.datastore?.appliance ?? '');
  const programs = appliance?.history;
  if (app === undefined || app.deletingSince !== undefined) return undefined;
  if (appliance === undefined || programs === undefined) return undefined;
  const plan = await resources.find(backupPlanType, appId, { signal });
  if (plan === undefined) return 'not yet';
  const made = { id: appId, owner: ownedBy(appId), spec: { datastore: app.spec.name } };
  const also = guard(options);
  let history = await resources.find(historyType, appId, { signal });
  // Of a cluster that came back: before anything would collect what it has.
  const found =
    history === undefined ? await readCatalogue(blobs, appId, { secret: plan.spec.secret, signal }) : undefined;
  const archive =
    (await resources.find(archiveType, appId, { signal })) ??
    (await resources.create(
      archiveType,
      { ...made, ...(found === undefined ? {} : { status: found.archive }) },
      { signal, also },
    ));
  if (found !== undefined)
    log.info({ datastore: app.spec.name }, 'the history of a datastore was found in the blob store');
  const ended = found === undefined ? [] : [...(found.ended ?? []), ...endOf(found)];
  const status = { run: found?.run ?? 0, recent: found?.recent ?? [], ended, nextMs: 0 };
  history ??= await resources.create(historyType, { ...made, status }, { signal, also });
  if (app.status.releaseId === undefined) return 'not yet';
  const isWanted = await wantsMembers(resources, app, signal);
  return { app, appliance, programs, plan, history, archive, isWanted };
}

/** As they are; none where one of them is not made yet, or is gone. */
export async function recordsOf(
  resources: StepDeps['resources'],
  appId: string,
  signal: AbortSignal,
): Promise<Pick<HistorySubject, 'plan' | 'history' | 'archive'> | undefined> {
  const [plan, history, archive] = await Promise.all([
    resources.find(backupPlanType, appId, { signal }),
    resources.find(historyType, appId, { signal }),
    resources.find(archiveType, appId, { signal }),
  ]);
  if (plan === undefined || history === undefined || archive === undefined) return undefined;
  return { plan, history, archive };
}

/** Scaled to none, nothing is written to it, and nothing is missing. */
export async function wantsMembers(
  resources: StepDeps['resources'],
  { spec, status: { releaseId } }: Pick<AppResource, 'spec' | 'status'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (releaseId === undefined) return false;
  const formation = await resources.find(formationType, releaseId, { signal });
  return (formation?.spec.processes[spec.datastore?.appliance ?? ''] ?? 0) > 0;
}

export function historyDays({ spec }: Pick<BackupPlan, 'spec'>): number {
  return spec.historyDays ?? defaultHistoryDays;
}

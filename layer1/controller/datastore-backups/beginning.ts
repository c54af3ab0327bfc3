/** Each datastore has a plan from the moment it is made: its schedule, and the key of its backups. */
import { appliances } from '@flynn/appliances/appliances';
import { appType, ownedBy } from '../resources.ts';
import { defaultKeep, defaultSchedule } from './plan.ts';
import { newSecret } from './sealing.ts';
import { guard } from './subject.ts';
import type { StepDeps, StepOptions } from './subject.ts';
import { backupPlanType } from './types.ts';

/** One look at that app. It waits for nothing that is done for other datastores. */
export async function beginPlan(
  { resources, now }: Pick<StepDeps, 'resources' | 'now'>,
  appId: string,
  options: StepOptions,
): Promise<void> {
  const { signal } = options;
  const app = await resources.find(appType, appId, { signal });
  if (app === undefined || app.deletingSince !== undefined) return;
  if (!appliances.has(app.spec.datastore?.appliance ?? '')) return;
  if ((await resources.find(backupPlanType, app.id, { signal })) !== undefined) return;
  const { id, spec } = app;
  await resources.create(
    backupPlanType,
    {
      id,
      owner: ownedBy(id),
      spec: { datastore: spec.name, schedule: defaultSchedule(id), keep: defaultKeep, secret: newSecret() },
      status: { handledMs: now() },
    },
    { signal, also: guard(options) },
  );
}

/** A deployment as it goes: its state at each change, and its jobs in the order they come up and end. */
import { AsyncQueue } from '@flynn/kit/queue';
import type { ServerEvent } from '@flynn/kit/routes';
import type { JobStatus } from '@flynn/scheduler/cell';
import { appIdOf } from '../processes/compile.ts';
import { isJobOf, progressOf } from './progress.ts';
import type { Deps } from '../deps.ts';
import type { DeploymentResource } from '../resources.ts';
import { viewDeployment } from '../views.ts';

/** What a reader may be behind: more than any deployment has jobs. */
const eventLimit = 100_000;

type JobEvent = { id: string; type: string; releaseId: string; state: 'up' | 'down' };

/** Up to and with its end. */
export async function* deploymentEvents(
  deps: Deps,
  asked: DeploymentResource,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  const { id, spec } = asked;
  await deps.deployments.reached(asked.revision, { signal });
  const changes = new AsyncQueue<JobEvent | 'look'>({ limit: eventLimit });
  changes.push('look');
  const stops = [
    deps.deployments.onChange(({ key }) => (key === id ? changes.push('look') : undefined)),
    deps.cell.statuses.onChange(({ before, after }) => {
      if (appIdOf((after ?? before)?.workloadId ?? '') !== spec.appId) return;
      const event = jobEvent(asked, before, after);
      if (event !== undefined) changes.push(event);
      changes.push('look');
    }),
    deps.cell.hosts.onChange(() => changes.push('look')),
  ];
  const onAbort = () => changes.end();
  signal.addEventListener('abort', onAbort, { once: true });
  let told = '';
  try {
    for await (const change of changes) {
      if (signal.aborted) return;
      if (change !== 'look') {
        yield { event: 'job', data: change };
        continue;
      }
      const deployment = deps.deployments.snapshot.entries.get(id)?.value;
      if (deployment === undefined) return;
      const view = viewDeployment(deployment, progressOf(deployment, deps.cell));
      const text = JSON.stringify(view);
      if (text !== told) yield { event: 'deployment', data: view };
      told = text;
      if (view.state === 'complete' || view.state === 'failed') return;
    }
  } finally {
    for (const stop of stops) stop();
    signal.removeEventListener('abort', onAbort);
    changes.end();
  }
}

/** Up is healthy; down is that it will never run again. */
function jobEvent(
  { spec }: DeploymentResource,
  before: JobStatus | undefined,
  after: JobStatus | undefined,
): JobEvent | undefined {
  const job = after ?? before;
  if (job === undefined) return undefined;
  const releaseId = [spec.newReleaseId, spec.oldReleaseId].find((one) => one !== undefined && isJobOf(job, one));
  const type = job.meta['flynn.type'];
  if (releaseId === undefined || type === undefined) return undefined;
  const isUp = after?.state === 'running' && before?.state !== 'running';
  const isDown = after?.isFinal === true && before?.isFinal !== true;
  return isUp || isDown ? { id: job.id, type, releaseId, state: isUp ? 'up' : 'down' } : undefined;
}

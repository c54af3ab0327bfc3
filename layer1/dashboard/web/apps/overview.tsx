/** An app's processes: how many there are to be, which there are, and what can be done with them. */
import type { apps, jobs } from '@flynn/controller/api';
import type { autoscales } from '@flynn/controller/autoscale/api';
import type { Autoscale } from '@flynn/controller/autoscale/model';
import type { evaluations } from '@flynn/controller/hosts/api';
import type { routing } from '@flynn/controller/routes/api';
import { isAtLeast } from '@flynn/controller/access/roles';
import { holdsCounts } from '@flynn/controller/deployments/phases';
import type { App, Deployment, Job } from '@flynn/controller/model';
import { AppCharts } from '../figures/app-charts.tsx';
import { ActButton, AskedButton } from '../parts/acts.tsx';
import { Badge } from '../parts/badge.tsx';
import { Link } from '../parts/link.tsx';
import { useEvery, useLoaded } from '../parts/loading.ts';
import { Section } from '../parts/section.tsx';
import { useServices, useWorld } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time, useNow } from '../parts/time.tsx';
import { countText, shortText } from '../text.ts';
import { jobActs, levelOn, mayChange } from '../world/abilities.ts';
import { type AppView, isInMaintenance, isOver, isUnderWay } from '../world/app-state.ts';
import { DeploymentProgress } from './deployments.tsx';
import { jobTones, noteOf } from './job-text.ts';
import { ReleaseName } from './live-release.tsx';
import { Scaling } from './scaling.tsx';

const rangesEveryMs = 15_000;

export function Overview({ view }: { view: AppView }) {
  const { session } = useServices();
  const world = useWorld();
  const { app, counts, jobs, deployment } = view;
  const ranges = useRanges(app);
  const isOwn = mayChange(app, session.identity);
  const isHeld = app.releaseId === undefined || (deployment !== undefined && holdsCounts(deployment));
  const present = jobs
    .filter((job) => !isOver(job) || job.type === 'run')
    .toSorted((a, b) => (a.type === b.type ? (a.createdAt < b.createdAt ? -1 : 1) : a.type < b.type ? -1 : 1));
  return (
    <>
      {isUnderWay(deployment) ? <DeploymentProgress key={deployment.id} app={app} deployment={deployment} /> : null}
      {deployment?.state === 'failed' ? <Failed app={app} deployment={deployment} /> : null}
      {counts.length === 0 ? null : (
        <Section title="Processes">
          <div class="scalings">
            {counts.map((count) => (
              <Scaling
                key={`${count.type} ${app.releaseId}`}
                app={app}
                count={count}
                isFixed={!isOwn || isHeld}
                range={ranges.find(({ type }) => type === count.type)}
              />
            ))}
          </div>
          <Missing view={view} />
          {present.length === 0 ? (
            <p class="dim">Nothing runs.</p>
          ) : (
            <JobTable app={app} jobs={present} isOwn={isOwn} />
          )}
        </Section>
      )}
      {app.releaseId === undefined ? null : (
        <AppCharts
          key={app.id}
          app={app}
          types={counts.flatMap(({ type, wanted }) => (wanted > 0 ? [type] : []))}
          deployments={world.of('deployment', app.id)}
          isAsked={view.routes.length > 0 && app.datastore === undefined}
        />
      )}
      {isOwn ? <Settings view={view} /> : null}
    </>
  );
}

const none: readonly Autoscale[] = [];

/** Those of its types that are scaled by themselves. */
function useRanges(app: App): readonly Autoscale[] {
  const { api } = useServices();
  const { loaded, refresh } = useLoaded(app.id, (signal) =>
    api.call<typeof autoscales.list>('GET /apps/:app/autoscale', { params: { app: app.name } }, { signal }),
  );
  useEvery(rangesEveryMs, refresh);
  return loaded.is === 'ready' ? loaded.value : none;
}

function Failed({ app, deployment }: { app: App; deployment: Deployment }) {
  return (
    <div class="notice notice-bad">
      <p class="words">
        The last deployment, of <ReleaseName appId={app.id} releaseId={deployment.newReleaseId} />, failed{' '}
        <Time at={deployment.endedAt} />: {deployment.error ?? 'it did not come up'}
        {app.releaseId === undefined ? '' : '. The release before it is live as it was.'}
      </p>
      <p>
        <Link to={{ is: 'app', name: app.name, tab: 'deployments', item: deployment.id }}>Its last lines</Link>
      </p>
    </div>
  );
}

/** Instances that are wanted and have no place: why, as the schedulers say. */
function Missing({ view }: { view: AppView }) {
  const { app, counts, jobs } = view;
  const { api } = useServices();
  const present = jobs.filter((job) => !isOver(job) && job.releaseId === app.releaseId).length;
  const missing = counts.reduce((sum, { wanted }) => sum + wanted, 0) - present;
  const { loaded } = useLoaded(`${app.id} ${missing}`, async (signal) => {
    if (missing <= 0) return [];
    const query = { app: app.name, state: 'blocked' as const };
    return api.call<typeof evaluations.list>('GET /evaluations', { query }, { signal });
  });
  if (missing <= 0 || isUnderWay(view.deployment)) return null;
  const reasons =
    loaded.is === 'ready' ? loaded.value.flatMap(({ reason }) => (reason === undefined ? [] : [reason])) : [];
  return (
    <div class="notice notice-warn" role="status">
      <p>{countText(missing, 'instance')} more to come: no host has taken them yet.</p>
      {[...new Set(reasons)].map((reason) => (
        <p key={reason} class="words">
          {reason}
        </p>
      ))}
    </div>
  );
}

function JobTable({ app, jobs, isOwn }: { app: App; jobs: readonly Job[]; isOwn: boolean }) {
  const head = ['Process', 'State', '-Host', 'Age', '-Release', '-Restarts', ...(isOwn ? ['Actions'] : [])];
  return (
    <Table caption={`Instances of ${app.name}`} head={head}>
      {jobs.map((job) => (
        <JobRow key={job.id} app={app} job={job} isOwn={isOwn} />
      ))}
    </Table>
  );
}

function JobRow({ app, job, isOwn }: { app: App; job: Job; isOwn: boolean }) {
  const { api } = useServices();
  const world = useWorld();
  const now = useNow();
  const acts = isOwn ? jobActs[job.state] : [];
  const isWanted = world.of('formation', app.id).some(({ processes }) => Object.hasOwn(processes, job.type));
  const note = noteOf(job, now);
  const stop = () =>
    api.call<typeof jobs.stop>(
      'DELETE /apps/:app/jobs/:job',
      { params: { app: app.name, job: job.id } },
      { timeoutMs: 60_000 },
    );
  return (
    <tr>
      <th scope="row">
        <span title={job.id}>
          {job.type} <code class="dim">{job.id.slice(-6)}</code>
        </span>
      </th>
      <td>
        <Badge tone={jobTones[job.state]}>{job.state}</Badge>
        {note === undefined ? null : <p class="note words">{note}</p>}
      </td>
      <td class="wide">{job.hostId ?? '–'}</td>
      <td>
        <Time at={job.startedAt ?? job.createdAt} />
      </td>
      <td class="wide">
        <ReleaseName appId={app.id} releaseId={job.releaseId} />
      </td>
      <td class={job.restarts > 0 ? 'wide short' : 'wide'}>{job.restarts}</td>
      {isOwn ? (
        <td class="row-acts">
          {acts.includes('stop') && isWanted ? (
            <ActButton label="Restart" name={`Restart ${job.type} ${shortText(job.id)}`} act={stop} />
          ) : null}
          {acts.includes('stop') && !isWanted ? (
            <AskedButton
              label="Stop"
              name={`Stop ${job.type} ${shortText(job.id)}`}
              title={`Stop this ${job.type}?`}
              confirm="Stop it"
              act={stop}
            >
              <p>It ends, and nothing starts it again.</p>
            </AskedButton>
          ) : null}
        </td>
      ) : null}
    </tr>
  );
}

function Settings({ view }: { view: AppView }) {
  const { api, session, go } = useServices();
  const { app, routes } = view;
  const isOff = isInMaintenance(routes);
  const params = { app: app.name };
  const hasWeb = routes.some(({ type }) => type === 'http');
  const mayDelete = !app.isSystem && app.datastore === undefined && isAtLeast(levelOn(app, session.identity), 'admin');
  if (!hasWeb && !mayDelete) return null;
  return (
    <Section title="Settings">
      {hasWeb ? (
        <div class="setting">
          <p>
            <strong>Maintenance</strong>
            <br />
            <span class="dim">
              {isOff ? 'Every request is answered with the maintenance page.' : 'Requests reach the app.'} With a page
              of your own, and for some addresses not: <code>flynn -a {app.name} maintenance on --help</code>
            </span>
          </p>
          {isOff ? (
            <ActButton
              label="End maintenance"
              act={() =>
                api.call<typeof routing.endMaintenance>('DELETE /apps/:app/maintenance', { params, query: {} })
              }
            />
          ) : (
            <AskedButton
              label="Begin maintenance"
              title={`Take ${app.name} off the air?`}
              confirm="Begin"
              act={() =>
                api.call<typeof routing.beginMaintenance>('PUT /apps/:app/maintenance', { params, query: {}, body: {} })
              }
            >
              <p>All requests are answered with 503 and the maintenance page. Its processes run on.</p>
            </AskedButton>
          )}
        </div>
      ) : null}
      {mayDelete ? (
        <div class="setting">
          <p>
            <strong>Delete</strong>
            <br />
            <span class="dim">With its releases, routes and variables, and databases that no other app has.</span>
          </p>
          <AskedButton
            label="Delete app"
            title={`Delete ${app.name}?`}
            confirm="Delete it"
            word={app.name}
            isDanger
            act={async () => {
              await api.call<typeof apps.remove>('DELETE /apps/:app', { params, query: {} }, { timeoutMs: 60_000 });
              go({ is: 'apps' });
            }}
          >
            <p>
              Its processes stop; its releases, variables and routes go, and so do its databases with their backups
              where no other app has them. What it keeps on volumes stays on its hosts. This cannot be taken back.
            </p>
            <p>
              Keep a copy first:{' '}
              <code>
                flynn -a {app.name} export {app.name}.tar
              </code>
            </p>
          </AskedButton>
        </div>
      ) : null}
    </Section>
  );
}

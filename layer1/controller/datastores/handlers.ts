/** What people do with a datastore: programs of its image, run beside a member or in a container of their own. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { withDeadline } from '@flynn/kit/retry';
import { compareOf } from '@flynn/resource/record';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { joinSockets } from '../jobs/attach.ts';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { compileOneOff } from '../processes/compile.ts';
import { evaluationContext, forLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { execTarget } from '../jobs/exec.ts';
import { jobsOfApp } from '../jobs/views.ts';
import { cellOf, pendingJob } from '../jobs/jobs.ts';
import type { Job } from '../model.ts';
import { resourceType } from '../providers/types.ts';
import { runnableOf } from '../releases/releases.ts';
import { releaseType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { findVolumes } from '../volumes/volumes.ts';
import { datastores as routes } from './api.ts';
import { credentialHandlers } from './credentials.ts';
import { hostOf } from './datastore.ts';
import type { DatastoreView } from './api.ts';
import { describeDatastore, membersOf, parseStatus } from './description.ts';
import type { Status } from './description.ts';
import { asDatastore, findDatastore } from './lookup.ts';
import type { Datastore } from './lookup.ts';
import { joinPieces, outputOf } from './program.ts';
import { consoleType, superuserConsoleType } from './shells.ts';
import { switchOver } from './switchover.ts';

/** A member that stands still is not waited for longer: another may answer. */
const askMs = 8_000;
const askAllMs = 20_000;
/** Results are held in memory by the client. */
const consoleMemoryBytes = 512 * 1024 ** 2;

export function datastoreHandlers(deps: Deps): Handler[] {
  return [
    ...credentialHandlers(deps),
    handle(routes.get, async ({ params, signal }) =>
      describe(deps, await findDatastore(deps, params.app, signal), signal),
    ),
    handle(routes.switchover, async ({ params, body, signal }) =>
      switchOver(deps, await findDatastore(deps, params.app, signal), body.to, signal),
    ),
    handle(routes.console, async (call) => {
      const { params, body, signal } = call;
      return forLiveApp(deps, params.app, signal, async (app) =>
        startConsole(deps, asDatastore(app), { ...body, principal: principalOf(call) }, signal),
      );
    }),
    handle(routes.dump, async ({ params, signal }) => {
      const { app, appliance } = await findDatastore(deps, params.app, signal);
      const { hostId, id } = execTarget(deps, app, { type: appliance.name });
      const host = await deps.hosts.exec(hostId, id, { command: appliance.commands.dump }, signal);
      return (client) => joinSockets(client, host);
    }),
    handle(routes.import, async ({ params, signal }) => {
      const { app, appliance } = await findDatastore(deps, params.app, signal);
      const { hostId, id } = execTarget(deps, app, { type: appliance.name });
      const host = await deps.hosts.exec(hostId, id, { command: appliance.commands.import }, signal);
      return (client) => joinPieces(client, host, deps.log);
    }),
  ];
}

async function describe(deps: Deps, datastore: Datastore, signal: AbortSignal): Promise<DatastoreView> {
  const { app, appliance, resourceId } = datastore;
  const [asked, { volumes }, release] = await Promise.all([
    askMembers(deps, datastore, signal),
    findVolumes(deps, { appId: app.id, sizes: true, signal }),
    liveRelease(deps, app, signal),
  ]);
  const jobs = jobsOfApp(app.id, cellOf(deps.cell), { all: false, nowMs: deps.now() });
  return describeDatastore({
    app: { id: app.id, name: app.spec.name },
    resourceId,
    kind: appliance.name,
    memoryBytes: release?.spec.processes[appliance.name]?.memoryBytes ?? appliance.defaultMemoryBytes,
    jobs: jobs.filter(({ type }) => type === appliance.name),
    volumes,
    ...asked,
  });
}

/** One after the other, until one answers: each knows of all. */
async function askMembers(
  deps: Deps,
  { app, appliance }: Datastore,
  signal: AbortSignal,
): Promise<{ status: Status | undefined; problem: string | undefined }> {
  const limited = withDeadline(askAllMs, signal);
  const said: string[] = [];
  for (const member of membersOf(appliance, statusesOfApp(deps.cell, app.id))) {
    try {
      const text = await outputOf(
        deps.hosts,
        member,
        { command: appliance.commands.status },
        withDeadline(askMs, limited),
      );
      return { status: parseStatus(text), problem: undefined };
    } catch (error) {
      signal.throwIfAborted();
      said.push(`${member.hostId}: ${messageOf(error)}`);
      if (limited.aborted) break;
    }
  }
  const why = said.length === 0 ? 'no member runs' : `no member tells how it is (${said.join('; ')})`;
  return {
    status: undefined,
    problem: `${why}; flynn ps -a ${app.spec.name} and flynn log -a ${app.spec.name} tell more`,
  };
}

type Console = Readonly<{
  args: readonly string[];
  tty: boolean;
  term?: string | undefined;
  isSuperuser: boolean;
  principal: Principal;
}>;

/**
 * In no member's container: a client reads files and starts programs where it runs. It has what apps are given, and no secret of
 * the datastore's.
 */
async function startConsole(
  deps: Deps,
  { app, appliance, resourceId }: Datastore,
  { args, tty, term, isSuperuser, principal }: Console,
  signal: AbortSignal,
): Promise<Job> {
  if (isSuperuser && principal.levelOn({ id: app.id, isSystem: false }) !== 'admin') {
    throw new FlynnError(
      'denied',
      `the superuser of ${app.spec.name} is for admins of the cluster: without --superuser you are the owner of all that its apps keep in it`,
    );
  }
  const release = await liveRelease(deps, app, signal);
  const runnable = release === undefined ? undefined : await runnableOf(deps, app, release, signal);
  if (release === undefined || runnable === undefined) {
    throw new FlynnError('conflict', `${app.spec.name} is not up yet: flynn ps -a ${app.spec.name}`);
  }
  // While it is being made nobody was given anything yet, and of one that was forgotten there is no record any more.
  const resource = await deps.resources.find(resourceType, resourceId, { signal });
  const isGiven = resource?.status.externalId !== undefined;
  const { command, env } = appliance.console({
    login: isGiven ? appliance.logins.of(resource.status.env) : appliance.logins.first(release.spec.env),
    host: (role) => hostOf(app.spec.name, role),
    ...(isSuperuser ? { secrets: release.spec.env } : {}),
  });
  const own = { ...runnable, release: { ...runnable.release, env: {} } };
  const type = isSuperuser ? superuserConsoleType : consoleType;
  const workload = compileOneOff(own, {
    workloadId: `${app.id}-${type}-${shortId()}`,
    type,
    command: [...command, ...args],
    env: { ...env, ...(term === undefined ? {} : { TERM: term }) },
    tty,
    stdin: true,
    memoryBytes: consoleMemoryBytes,
  });
  const started = { compare: [compareOf(app)], then: workloadChange(workload, evaluationContext(deps)) };
  await deps.resources.commit([started], { signal });
  return pendingJob(workload, deps.now());
}

async function liveRelease(
  { resources }: Deps,
  { status }: AppResource,
  signal: AbortSignal,
): Promise<ReleaseResource | undefined> {
  return status.releaseId === undefined ? undefined : resources.find(releaseType, status.releaseId, { signal });
}

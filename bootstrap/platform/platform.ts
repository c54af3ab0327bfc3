/** Makes the platform's apps what the manifest says, through the controller's API. Each step may be repeated. */
import { apps, deployments, formations, releases } from '@flynn/controller/api';
import { type PlatformPart, limitsMeta, variablesMeta } from '@flynn/controller/backup/manifest';
import { limitsOf } from '@flynn/controller/backup/platform-limits';
import { isOvertaken, withSeen } from '@flynn/controller/releases/overtaken';
import { routing } from '@flynn/controller/routes/api';
import { keys } from '@flynn/controller/keys/api';
import { certificates } from '@flynn/controller/certificates/api';
import type { App, Deployment } from '@flynn/controller/model';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { parseCertificate } from '@flynn/kit/certificate';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry, waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import type { Credentials } from '@flynn/kit/tls';
import type { Given, SystemApp } from './manifest.ts';
import {
  type Live,
  givenBy,
  isCurrent,
  lastGiven,
  nextEnv,
  nextProcesses,
  nothingGiven,
  routeChanges,
} from './part.ts';

/** Of one that fails: two minutes without anything coming up, and as long for what it took away to be back. */
const deployMs = 300_000;
/** So often somebody else may change a part of the platform while it is updated. */
const maxAttempts = 5;
/** A controller that is being replaced refuses connections for a moment. */
const callMs = 60_000;

/** Those that have ended, and those that people hold. */
const stillStates: ReadonlySet<Deployment['state']> = new Set(['complete', 'failed', 'canary', 'paused']);

/** Left out: what is called so, or has its address, is somebody's own. Failed: of what is dispensable alone. */
export type Outcome = 'created' | 'updated' | 'unchanged' | 'left out' | 'failed';

export class Platform {
  readonly #client: HttpClient;
  readonly #waiting: { signal?: AbortSignal };

  /** With `signal` every wait ends as soon as it aborts; what was asked for goes on in the cluster. */
  constructor(client: HttpClient, waiting: { signal?: AbortSignal } = {}) {
    this.#client = client;
    this.#waiting = waiting;
  }

  /** Each as `ensureApp` does, all at once, outcomes in the same order. The first that fails ends the wait for the others. */
  async ensureApps(wanted: readonly SystemApp[], report: (line: string) => void): Promise<Outcome[]> {
    await using tasks = new TaskGroup(this.#waiting);
    const waiting = new Platform(this.#client, { signal: tasks.signal });
    const outcomes: Outcome[] = [];
    for (const [index, app] of wanted.entries()) {
      tasks.run(app.name, async () => {
        outcomes[index] = await waiting.ensureApp(app, report);
        const left = tasks.running.filter((name) => name !== app.name);
        if (left.length > 0) report(`waiting for ${left.join(', ')}`);
      });
    }
    await tasks.done();
    return outcomes;
  }

  /** Deploys the app if what is live is not what the manifest says. What is dispensable and fails is no trouble for the rest. */
  async ensureApp(wanted: SystemApp, report: (line: string) => void): Promise<Outcome> {
    try {
      return await this.#ensureWhole(wanted, report);
    } catch (error) {
      if (wanted.isDispensable !== true) throw error;
      this.#waiting.signal?.throwIfAborted();
      report(`going on without ${wanted.name}: ${messageOf(error)}`);
      return 'failed';
    }
  }

  async #ensureWhole(wanted: SystemApp, report: (line: string) => void): Promise<Outcome> {
    const ensured = await this.#ensureApp(wanted);
    if (ensured === 'taken') return 'left out';
    const { app: found, isNew } = ensured;
    await this.#ensureRoutes(wanted, isNew);
    let app = !isNew && (await this.#untilNoneUnderWay(wanted.name, report)) ? await this.find(wanted.name) : found;
    for (let attempt = 1; ; attempt += 1) {
      if (app === undefined) throw new FlynnError('conflict', `somebody deletes ${wanted.name} at the same time`);
      const live = await this.#live(app);
      const given = live === undefined ? nothingGiven : await this.#given(wanted.name);
      if (live !== undefined && isCurrent(wanted, live, given)) return 'unchanged';
      report(live === undefined ? `deploying ${wanted.name}` : `updating ${wanted.name}`);
      try {
        await this.#deploy(wanted, live, given);
        return live === undefined ? 'created' : 'updated';
      } catch (error) {
        // What people set meanwhile stays set.
        if (!isOvertaken(error) || attempt >= maxAttempts) throw error;
        app = await this.find(wanted.name);
      }
    }
  }

  /** Of the app those with such an environment, so that nobody goes back to one; the live one is refused. */
  async removeReleases(app: string, isUnwanted: (env: Readonly<Record<string, string>>) => boolean): Promise<void> {
    const params = { app };
    const all = await this.#retry('reading the releases', () => this.#client.call(releases.list, { params }));
    for (const { id } of all.filter(({ env }) => isUnwanted(env))) {
      try {
        // The app may be written at the same moment, which is a conflict.
        const isRetryable = (error: unknown) => hasCode(error, 'conflict', 'unavailable', 'timeout', 'exhausted');
        await retry(() => this.#client.call(releases.remove, { params: { ...params, release: id } }), {
          what: 'removing a release',
          deadlineMs: callMs,
          isRetryable,
          ...this.#waiting,
        });
      } catch (error) {
        // The answer to an earlier attempt was lost.
        if (!hasCode(error, 'not_found')) throw error;
      }
    }
  }

  /** One that an interrupted command left may have something else live in a moment. Whether there was one. */
  async #untilNoneUnderWay(app: string, report: (line: string) => void): Promise<boolean> {
    const all = await this.#retry('reading the deployments', () =>
      this.#client.call(deployments.list, { params: { app } }),
    );
    const underWay = all.find(({ state }) => !stillStates.has(state));
    if (underWay === undefined) return false;
    report(`waiting for an earlier deployment of ${app}`);
    await this.#untilEnded(app, underWay.id);
    return true;
  }

  /** As many of the platform's own as people had, of those that there are; what finds no place waits for one. */
  async restoreCounts({ apps: kept }: Pick<PlatformPart, 'apps'>): Promise<void> {
    for (const [name, { counts }] of Object.entries(kept)) {
      const release = (await this.find(name))?.releaseId;
      if (release === undefined) continue;
      const params = { app: name, release };
      await this.#retry(`scaling ${name}`, async () => {
        const { processes } = await this.#client.call(formations.get, { params });
        const known = Object.entries(counts).filter(([type]) => Object.hasOwn(processes, type));
        await this.#client.call(formations.put, { params, body: { processes: Object.fromEntries(known) } });
      });
    }
  }

  createApp(name: string): Promise<App> {
    return this.#retry('creating an app', () => this.#client.call(apps.create, { body: { name } }));
  }

  /** Once for each; throws `conflict` for one that is somebody else's. */
  async addKey(publicKey: string): Promise<void> {
    await this.#retry('adding the SSH key', () => this.#client.call(keys.create, { body: { publicKey } }));
  }

  /** Serves it for the name, with its authority's. False if people have brought another one, or asked for one: it stays. */
  async ensureCertificate(domain: string, own: Credentials, authority: string): Promise<boolean> {
    const all = await this.#retry('reading the certificates', () => this.#client.call(certificates.list, {}));
    const there = all.find(({ domains }) => domains.includes(domain));
    const { issuer, validTo } = parseCertificate(own.certificate);
    if (there !== undefined && (there.source !== 'own' || `CN=${there.issuer}` !== issuer)) return false;
    if (there?.notAfter === new Date(validTo).toISOString()) return true;
    const body = { domains: [domain], certificate: own.certificate + authority, privateKey: own.privateKey };
    await this.#retry('putting the certificate in its place', () => this.#client.call(certificates.add, { body }));
    return true;
  }

  /** Taken: what is called so, or has the address that comes with the name, is somebody's, and the platform does without. */
  async #ensureApp(wanted: SystemApp): Promise<{ app: App; isNew: boolean } | 'taken'> {
    const existing = await this.find(wanted.name);
    if (existing?.isSystem === false && wanted.isDispensable === true) return 'taken';
    if (existing !== undefined) return { app: existing, isNew: false };
    try {
      const body = { name: wanted.name, isSystem: true };
      return {
        app: await this.#retry(`creating ${wanted.name}`, () => this.#client.call(apps.create, { body })),
        isNew: true,
      };
    } catch (error) {
      // The answer to an earlier attempt was lost.
      const app = hasCode(error, 'conflict') ? await this.find(wanted.name) : undefined;
      if (app === undefined && hasCode(error, 'conflict') && wanted.isDispensable === true) return 'taken';
      if (app === undefined) throw error;
      return { app, isNew: true };
    }
  }

  async find(name: string): Promise<App | undefined> {
    try {
      return await this.#retry(`looking for ${name}`, () => this.#client.call(apps.get, { params: { app: name } }));
    } catch (error) {
      if (hasCode(error, 'not_found')) return undefined;
      throw error;
    }
  }

  async #live(app: App): Promise<Live | undefined> {
    const { releaseId } = app;
    if (releaseId === undefined) return undefined;
    return this.#retry(`reading the release of ${app.name}`, async () => {
      const release = await this.#client.call(releases.get, { params: { app: app.id, release: releaseId } });
      const { artifactId } = release;
      if (artifactId === undefined) return { release };
      return { release, artifact: await this.#client.call(releases.getArtifact, { params: { artifact: artifactId } }) };
    });
  }

  async #deploy(wanted: SystemApp, live: Live | undefined, given: Given): Promise<void> {
    const params = { app: wanted.name };
    const artifact = await this.#retry('registering an image', () =>
      this.#client.call(releases.createArtifact, { body: { type: 'image', image: { name: wanted.image } } }),
    );
    const env = nextEnv(wanted, { env: live?.release.env ?? {}, given: given.variables });
    const processes = nextProcesses(wanted, { limits: limitsOf(live?.release.processes ?? {}), given });
    const { variables, limits = {} } = wanted.given ?? givenBy(wanted);
    const meta = { [variablesMeta]: variables.join(','), [limitsMeta]: JSON.stringify(limits) };
    const body = { artifactId: artifact.id, env, processes, meta };
    const release = await this.#retry('making a release', () => this.#client.call(releases.create, { params, body }));
    if (live === undefined) {
      const counts = { params: { app: wanted.name, release: release.id }, body: { processes: { ...wanted.counts } } };
      await this.#retry('setting the formation', () => this.#client.call(formations.put, counts));
    }
    const deployment = await this.#startDeployment(wanted.name, release.id, live?.release.id ?? null);
    const ended = await this.#untilEnded(wanted.name, deployment);
    if (ended.state !== 'complete') throw new FlynnError('internal', failureText(wanted.name, ended));
  }

  /** What a manifest gave it last; a release that people made says nothing but what the one before it said. */
  async #given(app: string): Promise<Given> {
    const all = await this.#retry('reading the releases', () => this.#client.call(releases.list, { params: { app } }));
    return lastGiven(all);
  }

  async #untilEnded(app: string, deployment: string): Promise<Deployment> {
    let last: Deployment | undefined;
    try {
      return await waitFor(
        async () => {
          last = await this.#client.call(deployments.get, { params: { deployment } });
          return last.state === 'complete' || last.state === 'failed' ? last : undefined;
        },
        { what: `the deployment of ${app}`, deadlineMs: deployMs, intervalMs: 150, ...this.#waiting },
      );
    } catch (error) {
      if (!hasCode(error, 'timeout') || last === undefined) throw error;
      throw new FlynnError('timeout', `${messageOf(error)} (${progressText(last)}). ${whereToLook(app)}`, {
        cause: error,
      });
    }
  }

  /** Waits for a deployment that an interrupted `up` left under way. `isOvertaken` if something else is live by then. */
  async #startDeployment(app: string, releaseId: string, replaces: string | null): Promise<string> {
    const params = { app };
    const started = await waitFor(
      async (): Promise<{ id: string } | { overtaken: Error } | undefined> => {
        try {
          const { id } = await withSeen({ replaces }, (seen) =>
            this.#client.call(deployments.create, { params, body: { releaseId, ...seen } }),
          );
          return { id };
        } catch (error) {
          if (isOvertaken(error)) return { overtaken: error };
          if (!hasCode(error, 'conflict')) throw error;
          const all = await this.#client.call(deployments.list, { params });
          return all.find((one) => one.newReleaseId === releaseId);
        }
      },
      { what: `an earlier deployment of ${app}`, deadlineMs: deployMs, intervalMs: 500, ...this.#waiting },
    );
    if ('overtaken' in started) throw started.overtaken;
    return started.id;
  }

  async #ensureRoutes(wanted: SystemApp, isNew: boolean): Promise<void> {
    const params = { app: wanted.name };
    const existing = await this.#retry('reading routes', () => this.#client.call(routing.list, { params }));
    const { toRemove, toCreate } = routeChanges(wanted.routes, existing, isNew);
    for (const { id } of toRemove) {
      await this.#retry('removing a route', () =>
        this.#client.call(routing.remove, { params: { ...params, route: id } }),
      );
    }
    for (const route of toCreate) {
      try {
        await this.#retry('adding a route', () => this.#client.call(routing.create, { params, body: route }));
      } catch (error) {
        if (wanted.isDispensable !== true || !hasCode(error, 'conflict')) throw error;
        // Whoever has it keeps it; people give this another.
      }
    }
  }

  /** Whether the platform has it, and not somebody. */
  async hasOwn(name: string): Promise<boolean> {
    return (await this.find(name))?.isSystem === true;
  }

  /** Of these names those that lead to the app. */
  async namesOf(app: string, names: readonly string[]): Promise<string[]> {
    const all = await this.#retry('reading routes', () => this.#client.call(routing.list, { params: { app } }));
    return names.filter((name) => all.some(({ type, domain }) => type === 'http' && domain === name));
  }

  #retry<T>(what: string, call: () => Promise<T>): Promise<T> {
    return retry(() => call(), { what, deadlineMs: callMs, maxMs: 1_000, ...this.#waiting });
  }
}

/** Which service, why, its last lines, and what to do next. */
function failureText(app: string, { error, failedJob }: Deployment): string {
  const exit = failedJob?.exitCode === undefined ? '' : ` (exit code ${failedJob.exitCode})`;
  const lines = failedJob?.lines.map((line) => `    ${line}`) ?? [];
  const said = lines.length === 0 ? [] : [`  Its last lines${exit}:`, ...lines];
  return [`deploying ${app} failed: ${error ?? 'no reason was given'}`, ...said, `  ${whereToLook(app)}`].join('\n');
}

function progressText({ progress }: Deployment): string {
  const types = Object.entries(progress).map(([type, { wanted, up }]) => `${type}: ${up} of ${wanted} up`);
  return types.length === 0 ? 'nothing of it has begun' : types.join(', ');
}

function whereToLook(app: string): string {
  return `flynn -a ${app} log has what it says, flynn -a ${app} ps where it runs, flynn eval list why something is not placed.`;
}

import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { apps, formations, releases } from '@flynn/controller/api';
import { autoscales } from '@flynn/controller/autoscale/api';
import { commandOf } from '@flynn/controller/datastores/kinds';
import { resources } from '@flynn/controller/providers/api';
import { platform } from '@flynn/controller/platform/api';
import { zoneOf } from '@flynn/controller/routes/address';
import { routing } from '@flynn/controller/routes/api';
import { layers } from '@flynn/controller/collection/api-layers';
import { adoptedRelease } from '@flynn/controller/releases/adoption';
import { serviceNameOf } from '@flynn/controller/processes/compile';
import { resultMeta } from '@flynn/controller/images/image-blobs';
import type { App, Artifact, Release, Route } from '@flynn/controller/model';
import { FlynnError, hasCode, ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { Stall } from '@flynn/kit/stall';
import { type AppFile, appFileOf, layersOf, readAppFile, withoutRecord } from '../apps/file.ts';
import { withoutHalf } from '../apps/removal.ts';
import { listAutoscales } from '../apps/autoscale.ts';
import type { Context } from '../context.ts';
import { openNamed } from '../input-file.ts';
import { untilInterrupted } from '../interruption.ts';
import { deployRelease, deployedText } from '../deployments/deploy.ts';
import { formatCount } from '../output.ts';
import { saveWhole } from '../transfer.ts';
import { addCommand, type Parent } from './command.ts';

/** Of an app that never ran. */

export function addExportCommands(parent: Parent): void {
  addCommand(parent, {
    name: 'export',
    summary: 'an app as one file: release, env, counts, routes and the slug itself',
    arguments: [['[path]', 'the file, - for standard output; else NAME.tar']],
    async run(context, _options, [path]) {
      const client = await context.client();
      const { file, record, artifactId } = await describeApp(context);
      for (const one of file.resources ?? []) tell(context, `not in the file: ${whatOf(one)}`);
      const bytesOf = (limits: { signal?: AbortSignal } = {}) =>
        appFileOf(file, {
          record,
          open: (digest) => client.stream(layers.get, { params: { artifact: artifactId, digest } }, limits),
        });
      if (path === '-') return pipeline(bytesOf(), context.io.stdout, { end: false });
      const target = resolve(context.io.cwd, path ?? `${file.app.name}.tar`);
      await context.progress('exporting', () =>
        untilInterrupted(context.io, 'stopped: no file was written', (signal) =>
          saveWhole(target, () => bytesOf({ signal }), { signal }),
        ),
      );
      context.show(
        { path: target },
        () => `${target}: ${file.app.name}, ${formatCount(layersOf(file.artifact).length, 'layer')}`,
      );
    },
  });

  addCommand<{ name?: string; deploy: boolean }>(parent, {
    name: 'import',
    summary: 'make an app of a file that "flynn export" wrote, and roll it out',
    arguments: [['<path>', 'the file, - for standard input']],
    options: {
      name: ['-n, --name <name>', 'another name than it had'],
      deploy: ['--no-deploy', 'leave its release to be deployed by hand'],
    },
    async run(context, { name, deploy }, [path = '']) {
      const input = await openNamed(context.io, path);
      const file = await context.progress('reading', () =>
        readAppFile(input, (_app, digest, body) => storeLayer(context, digest, body)),
      );
      await makeApp(context, file, { name: name ?? file.app.name, deploy });
    },
  });
}

type Described = { file: AppFile; record: Buffer | undefined; artifactId: string };

async function describeApp(context: Context): Promise<Described> {
  const client = await context.client();
  const params = { app: await context.appName() };
  const app = await client.call(apps.get, { params });
  if (app.datastore !== undefined) {
    throw new FlynnError(
      'invalid',
      `${app.name} is a datastore: it is in no file of an app\n  "flynn ${commandOf(app.datastore.appliance)} dump -a ${app.name}" has what is in it`,
    );
  }
  if (app.releaseId === undefined) {
    throw new FlynnError('not_found', `${app.name} has no live release\n  git push flynn main makes the first`);
  }
  const ofRelease = { params: { ...params, release: app.releaseId } };
  const [cluster, release, { processes: counts }, routes, provided, scaled] = await Promise.all([
    client.call(platform.cluster, {}),
    client.call(releases.get, ofRelease),
    client.call(formations.get, ofRelease),
    client.call(routing.list, { params }),
    client.call(resources.ofApp, { params }),
    listAutoscales(context, params.app),
  ]);
  const { artifactId } = release;
  if (artifactId === undefined) throw new FlynnError('invalid', `${app.name} has nothing to run: push code first`);
  const registered = await client.call(releases.getArtifact, { params: { artifact: artifactId } });
  const record = await recordOf(client, registered);
  const artifact = record === undefined ? withoutRecord(registered) : registered;
  const own = ownRoutes(routes, app.name, cluster);
  const isClosed = routes.some((route) => route.http.access !== undefined && !own.includes(route));
  const left = provided.map(({ provider, variables }) => ({ provider, variables }));
  const autoscale = scaled.map(
    ({ appId: _app, seen: _seen, held: _held, last: _last, changes: _changes, ...one }) => one,
  );
  const file: AppFile = {
    format: 1,
    app,
    release,
    artifact,
    counts,
    autoscale,
    routes: own,
    resources: left,
    isClosed,
  };
  return { file, record, artifactId };
}

/** Some kilobytes. Undefined where there is none, or the cluster has lost it or, being of a version before, keeps it to itself. */
async function recordOf(client: HttpClient, { id, meta }: Artifact): Promise<Buffer | undefined> {
  const digest = meta[resultMeta];
  if (digest === undefined) return undefined;
  const found = await ifFound(client.stream(layers.get, { params: { artifact: id, digest } }));
  return found === undefined ? undefined : buffer(found);
}

type Domains = { domain: string; formerDomains: readonly string[] };

/**
 * Without what the cluster gave: the route the app was made with, which it gets where it is made again, and what is at a former
 * domain of the cluster for as long as that answers too.
 */
function ownRoutes(routes: readonly Route[], name: string, { domain: current, formerDomains }: Domains): Route[] {
  const domains = [current, ...formerDomains];
  const placeAt = ({ path, port }: Route, host: string): string => `${host} ${path} ${port ?? ''}`;
  const places = new Set(routes.map((route) => placeAt(route, hostOf(route))));
  return routes.filter((route) => {
    const host = hostOf(route);
    const zone = zoneOf(host, domains);
    if (zone === undefined) return true;
    if (host === `${name}.${zone}` && route.type === 'http' && route.path === '/') return false;
    const there = `${host.slice(0, host.length - zone.length)}${current}`;
    return zone === current || !places.has(placeAt(route, there));
  });
}

function hostOf({ domain, tcp }: Route): string {
  return domain ?? tcp.serverName ?? '';
}

/** Of all of a layer, which may take as long as it gets on. */
const layerMs = 12 * 3_600_000;

/** What the cluster has already is not sent again. */
async function storeLayer(context: Context, digest: string, body: Readable): Promise<void> {
  const client = await context.client();
  try {
    await client.call(layers.stat, { params: { digest } });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    using stall = new Stall({ what: `sending ${digest}` });
    const watched = Readable.from(stall.watched(body), { objectMode: false });
    const limits = { signal: stall.signal, timeoutMs: layerMs };
    await client.call(layers.put, { query: { digest }, body: watched }, limits);
  }
}

async function makeApp(context: Context, file: AppFile, wanted: { name: string; deploy: boolean }): Promise<void> {
  const client = await context.client();
  // A review app elsewhere is no review app here.
  const meta = Object.fromEntries(Object.entries(file.app.meta).filter(([key]) => !key.startsWith('review.')));
  const { app, release } = await untilInterrupted(context.io, 'stopped', async (signal) => {
    const app = await client.call(apps.create, { body: { name: wanted.name, meta } });
    try {
      return { app, release: await fillApp(context, app, file, signal) };
    } catch (error) {
      throw await withoutHalf(client, app, error, 'import it once more');
    }
  });
  if (!wanted.deploy) {
    context.show({ app, release }, () => `Created ${app.name}; "flynn rollback v${release.version}" deploys it`);
    return;
  }
  const deployed = await deployRelease(context, { app: app.name, release });
  context.show({ app, release }, () => `Created ${app.name}: ${deployedText(release, deployed, app.name)}`);
}

/** All that it is but live. */
async function fillApp(context: Context, app: App, file: AppFile, signal: AbortSignal): Promise<Release> {
  const client = await context.client();
  const call: HttpClient['call'] = (route, input) => client.call(route, input, { signal });
  const { deployTimeoutMs, rollout } = file.app;
  const params = { app: app.id };
  const body = { deployTimeoutMs, ...(rollout === undefined ? {} : { rollout }) };
  await call(apps.update, { params, body });
  const { image } = file.artifact;
  // Slugs run on whatever this cluster runs them on.
  const ownImage = file.artifact.type === 'slug' && 'base' in image ? { ...image, base: 'slug-runner' } : image;
  const artifact = await call(releases.createArtifact, { body: { ...file.artifact, image: ownImage } });
  const known = { ...file.release, id: '', appId: '', version: 1, artifactId: artifact.id, createdAt: '' };
  const adopted = adoptedRelease({ app: file.app, release: known }, { app, release: undefined });
  const release = await call(releases.create, {
    params,
    body: { ...adopted, env: file.release.env, meta: file.release.meta },
  });
  const ofRelease = { params: { ...params, release: release.id } };
  await call(formations.put, { ...ofRelease, body: { processes: file.counts } });
  for (const { type, ...body } of file.autoscale ?? []) {
    try {
      await call(autoscales.set, { params: { ...params, type }, body });
    } catch (error) {
      // A controller of a version before it has no such thing: the app is made all the same.
      if (!hasCode(error, 'not_found')) throw error;
      tell(context, `left out that ${type} is scaled by itself: ${error.message}`);
    }
  }
  if (file.isClosed === true) await closeFirst(context, call, app);
  const skipped = await makeRoutes(call, app, file);
  for (const route of skipped) tell(context, `left out the route ${route}`);
  for (const one of file.resources ?? []) {
    tell(
      context,
      `not made here: ${whatOf(one)}; "flynn resource add PROVIDER --replace -a ${app.name}" gives it one of its own`,
    );
  }
  return release;
}

function whatOf({ provider, variables }: NonNullable<AppFile['resources']>[number]): string {
  return `what it had of the provider ${provider}, where its variables still lead: ${variables.join(', ') || 'none'}`;
}

function tell(context: Context, text: string): void {
  context.tell(`flynn: ${text}`);
}

/** Until somebody says who gets in. */
async function closeFirst(context: Context, call: HttpClient['call'], app: App): Promise<void> {
  await call(routing.beginMaintenance, { params: { app: app.id }, body: {} });
  const { name } = app;
  const first = `"flynn route update PLACE --user NAME -a ${name}", then "flynn maintenance off -a ${name}"`;
  tell(context, `in maintenance until it is said who gets in, as not everybody did: ${first}`);
}

/** What is somebody else's here is told. */
async function makeRoutes(call: HttpClient['call'], app: App, { app: exported, routes }: AppFile): Promise<string[]> {
  const skipped: string[] = [];
  for (const { type, domain, path, port, service, http: before, tcp } of routes) {
    const renamed = service === serviceNameOf(exported.name, 'web') ? serviceNameOf(app.name, 'web') : service;
    // Shares are of releases that are not there, and whoever imports an app means it to answer.
    const { weights: _weights, releaseAffinity: _affinity, maintenance: _maintenance, ...http } = before;
    const body =
      type === 'tcp' ? { type, port, service: renamed, tcp } : { type, domain, path, service: renamed, http };
    try {
      await call(routing.create, { params: { app: app.id }, body });
    } catch (error) {
      if (!hasCode(error, 'conflict', 'invalid')) throw error;
      skipped.push(`${type === 'tcp' ? `tcp ${port ?? ''}` : `${domain ?? ''}${path}`}: ${error.message}`);
    }
  }
  return skipped;
}
